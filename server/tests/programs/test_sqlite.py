"""The same on SQLite, while the server has the file open: from the program `sqlite3`, and from
Python's module of that name."""

import os
import sqlite3
import subprocess
import tempfile
import unittest
from contextlib import closing

from snaphook import Snaphook


class OnSqlite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = os.path.join(folder.name, "shop.db")
        # The program's own file, with its own table, before snaphook ever saw it.
        with closing(sqlite3.connect(cls.file)) as conn:
            conn.executescript("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
        cls.snaphook = Snaphook(f"sqlite:{cls.file}", folder.name)
        cls.addClassCleanup(cls.snaphook.close)
        cls.receiver = cls.snaphook.receiver

    def sqlite3(self, script):
        done = subprocess.run(
            ["sqlite3", "-bail", "-cmd", ".timeout 10000", self.file],
            input=script,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def insert(self, data):
        return f"INSERT INTO snaphook_outbox (tenant, type, data) VALUES ('acme', 'order.paid', '{data}');"

    def events(self):
        return int(self.sqlite3("SELECT count(*) FROM snaphook_events"))

    def test_a_rollback_in_the_sqlite3_program_is_not_heard_of(self):
        before = self.events()
        self.sqlite3("BEGIN;" + self.insert('{"n": 1}') + "ROLLBACK;")
        self.sqlite3("BEGIN;" + self.insert('{"n": 2}') + "COMMIT;")

        self.receiver.wait_for({"n": 2})
        self.assertNotIn({"n": 1}, self.receiver.data())
        self.assertEqual(self.events(), before + 1)

    def test_a_program_with_the_file_open_emits_in_its_own_transaction(self):
        with closing(sqlite3.connect(self.file, timeout=10)) as conn:
            for n in range(3):
                with conn:  # one transaction each
                    conn.execute("INSERT INTO orders (state) VALUES ('paid')")
                    conn.execute(self.insert(f'{{"python": {n}}}'))
        for n in range(3):
            self.receiver.wait_for({"python": n})


if __name__ == "__main__":
    unittest.main()
