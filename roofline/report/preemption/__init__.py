"""What is shown of an evicted sequence: sentences, tables, figures."""
