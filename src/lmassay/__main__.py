"""``python -m lmassay``"""

from lmassay.cli import main

main()
