"""`python -m roofline`."""

from roofline.cli.app import main

if __name__ == "__main__":
    main()
