"""What undoes a known fault: the changes of a source, by the kind of arithmetic that is wrong."""
