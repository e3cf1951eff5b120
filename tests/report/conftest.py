def pytest_addoption(parser):
    parser.addoption("--update-gold", action="store_true", help="rewrite the approved reports of tests/report/gold")
