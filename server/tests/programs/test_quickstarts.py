"""The quick starts of docs/sending.md, as they stand there: each block that the document marks
with `<!-- runs: NAME -->` is run against a real server, and its event must arrive."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from postgres import OnPostgres, psql

HERE = pathlib.Path(__file__).parent
DOCUMENT = HERE.parents[2] / "docs" / "sending.md"
BLOCKS = dict(re.findall(r"<!-- runs: (\S+) -->\n```\w+\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))

# Around the block of Django: settings, and a model on the table `orders`.
DJANGO = """
import os
import django
from django.conf import settings
from urllib.parse import urlparse

url = urlparse(os.environ["DATABASE_URL"])
settings.configure(INSTALLED_APPS=[], DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username,
    "PASSWORD": url.password, "HOST": url.hostname, "PORT": url.port,
}})
django.setup()
from django.db import models

class Order(models.Model):
    tenant = models.TextField()
    state = models.TextField()
    class Meta:
        app_label = "shop"
        db_table = "orders"
        managed = False

%s
mark_paid(Order.objects.get(pk=42))
"""


class Quickstarts(OnPostgres):
    def test_the_document_has_the_blocks_that_are_run_here(self):
        self.assertEqual(sorted(BLOCKS), ["django.py", "node-pg.mjs", "psql", "psycopg.py"])

    def check(self, run):
        """Runs a block; its order must be paid, and its event must arrive once more."""
        psql(self.database, "UPDATE orders SET state = 'new'; DELETE FROM snaphook.keys")
        before = len(self.receiver.data())

        run()

        self.assertIn("paid", psql(self.database, "SELECT state FROM orders WHERE id = 42"))
        with self.receiver.arrived:
            self.receiver.arrived.wait_for(lambda: len(self.receiver.genuine) > before, 60)
        self.assertEqual(len(self.receiver.data()), before + 1)
        self.assertEqual(self.receiver.data()[-1]["order_id"], 42)

    def execute(self, command, text):
        done = subprocess.run(
            command,
            input=text,
            cwd=HERE,  # where node finds its modules
            env=os.environ | {"DATABASE_URL": self.database},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_psql(self):
        self.check(lambda: psql(self.database, BLOCKS["psql"]))

    def test_psycopg(self):
        self.check(lambda: self.execute([sys.executable, "-"], BLOCKS["psycopg.py"]))

    def test_django(self):
        self.check(lambda: self.execute([sys.executable, "-"], DJANGO % BLOCKS["django.py"]))

    def test_node(self):
        self.check(lambda: self.execute(["node", "--input-type=module", "-"], BLOCKS["node-pg.mjs"]))


if __name__ == "__main__":
    unittest.main()
