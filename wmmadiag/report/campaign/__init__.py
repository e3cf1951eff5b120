"""A campaign as text, Markdown, a page, and as a run that JUnit and SARIF can hold."""
