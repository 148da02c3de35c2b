"""Databases in the cluster of `make test`, and a base for tests on one."""

import itertools
import os
import subprocess
import tempfile
import unittest

import psycopg

from snaphook import Snaphook

CLUSTER = os.environ["SNAPHOOK_TEST_POSTGRES"]
_names = itertools.count()


def psql(database, script):
    """Runs a script as `psql` does, and stops at its first error."""
    done = subprocess.run(
        ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", database],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"psql: {done.stderr}")
    return done.stdout


class OnPostgres(unittest.TestCase):
    """A server on a database with a table `orders`, made once for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        name = f"programs_{os.getpid()}_{next(_names)}"
        psql(CLUSTER, f"CREATE DATABASE {name}")
        cls.addClassCleanup(psql, CLUSTER, f"DROP DATABASE {name} WITH (FORCE)")
        cls.database = CLUSTER.rsplit("/", 1)[0] + "/" + name
        psql(
            cls.database,
            """
            CREATE TABLE orders (id integer PRIMARY KEY, tenant text, state text);
            INSERT INTO orders VALUES (42, 'acme', 'new');
            """,
        )
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.snaphook = Snaphook(cls.database, folder.name)
        cls.addClassCleanup(cls.snaphook.close)
        cls.receiver = cls.snaphook.receiver

    def events(self):
        """How many events there are."""
        with psycopg.connect(self.database) as conn:
            return conn.execute("SELECT count(*) FROM snaphook.events").fetchone()[0]
