"""What a reader moves on a lesson's page: the model's dimensions, the load, the hardware; and what follows from them."""
