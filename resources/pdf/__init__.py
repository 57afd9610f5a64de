"""What a PDF says of itself, read in a child process that cannot eat the machine."""

from resources.pdf.inspector import PdfFacts, PdfInspector

__all__ = ["PdfFacts", "PdfInspector"]
