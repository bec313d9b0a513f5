"""``python -m gambrel`` is the command line."""

from gambrel.cli import main

if __name__ == "__main__":
    main()
