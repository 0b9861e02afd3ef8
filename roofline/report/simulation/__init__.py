"""What is shown of a simulation: sentences, tables, figures."""
