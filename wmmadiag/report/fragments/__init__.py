"""Pictures of fragment layouts, and the table of shapes."""
