"""Templates of problems, one a file; `roofline.worksheets` says what is in one."""
