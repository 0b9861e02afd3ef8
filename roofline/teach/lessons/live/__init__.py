"""Interactive part of a lesson's page: controls of model, load and hardware, with numbers and figures that follow them."""
