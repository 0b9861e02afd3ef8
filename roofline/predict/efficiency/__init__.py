"""What kernels reach of the roofline: closed forms with a few fitted numbers, and how far they are off."""
