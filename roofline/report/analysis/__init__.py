"""The page of one analysis: state and view, figures, comparison."""
