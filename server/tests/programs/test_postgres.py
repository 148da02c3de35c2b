"""Emitting inside a transaction of one's own, from psql and psycopg: committed, it arrives and
verifies; rolled back, there is no request and no row."""

import json
import os
import unittest

import psycopg
from psycopg.types.json import Json, Jsonb

from postgres import OnPostgres, psql


class Psql(OnPostgres):
    def test_a_rollback_leaves_no_request_and_no_row(self):
        before = self.events()
        psql(self.database, """BEGIN; SELECT snaphook.emit('acme', 'order.paid', '{"n": 1}'); ROLLBACK""")
        self.assertEqual(self.events(), before)

        psql(self.database, """BEGIN; SELECT snaphook.emit('acme', 'order.paid', '{"n": 2}'); COMMIT""")

        self.receiver.wait_for({"n": 2})
        self.assertNotIn({"n": 1}, self.receiver.data())
        self.assertEqual(self.events(), before + 1)

    def test_an_insert_into_the_view_is_an_emit(self):
        psql(
            self.database,
            """INSERT INTO snaphook.outbox (tenant, type, data, key)
               VALUES ('acme', 'order.paid', '{"view": 1}', 'view-1')""",
        )
        self.receiver.wait_for({"view": 1})

    def test_the_same_key_is_the_same_event(self):
        emit = """SELECT snaphook.emit('acme', 'order.paid', '{"keyed": 1}', key => 'once')"""
        first, second = psql(self.database, emit), psql(self.database, emit)
        self.assertEqual(first, second)
        self.receiver.wait_for({"keyed": 1})
        self.assertEqual(self.receiver.data().count({"keyed": 1}), 1)

    def test_an_emitter_can_emit_and_see_nothing(self):
        name = f"shop_app_{os.getpid()}"  # roles belong to the whole cluster
        psql(self.database, f"CREATE ROLE {name}; GRANT snaphook_emitter TO {name}")
        self.addCleanup(psql, self.database, f"DROP ROLE {name}")

        psql(self.database, f"""SET ROLE {name}; SELECT snaphook.emit('acme', 'order.paid', '{{"role": 1}}')""")

        self.receiver.wait_for({"role": 1})
        with psycopg.connect(self.database, autocommit=True) as conn:
            tables = conn.execute(
                "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'snaphook'"
            ).fetchall()
            self.assertGreater(len(tables), 3)
            conn.execute(f"SET ROLE {name}")
            for (table,) in tables:
                with self.subTest(table), self.assertRaises(psycopg.errors.InsufficientPrivilege):
                    conn.execute(f"SELECT FROM {table}")


class Psycopg(OnPostgres):
    def test_data_may_be_text_json_jsonb_or_a_dict_in_either(self):
        # Of jsonb the bytes are those of ::text; of the others, those that were given.
        for name, parameter in [
            ("text", '{"psycopg":  "text"}'),
            ("json", Json({"psycopg": "json"})),
            ("jsonb", Jsonb({"psycopg": "jsonb"})),
        ]:
            with self.subTest(name):
                with psycopg.connect(self.database) as conn:
                    emit = "SELECT snaphook.emit(%s, %s, %s)"
                    (event,) = conn.execute(emit, ["acme", "order.paid", parameter]).fetchone()
                arrived = self.receiver.wait_for({"psycopg": name})
                self.assertEqual(arrived["id"], event)

    def test_the_bytes_of_text_arrive_as_they_were_written(self):
        written = '{"b": 1.10,\t"a": 12345678901234567890123, "b": "é\\u00e9"}'
        with psycopg.connect(self.database) as conn:
            conn.execute("SELECT snaphook.emit(%s, %s, %s)", ["acme", "order.paid", written])
        self.receiver.wait_for(json.loads(written))
        self.assertTrue(
            any(written.encode() in body for _, body in self.receiver.genuine), "not byte for byte"
        )

    def test_an_exception_rolls_back_and_is_not_heard_of(self):
        class Changed(Exception):
            pass

        with self.assertRaises(Changed), psycopg.connect(self.database) as conn:
            conn.execute("SELECT snaphook.emit('acme', 'order.paid', %s)", ['{"gone": 1}'])
            raise Changed
        with psycopg.connect(self.database) as conn:
            conn.execute("SELECT snaphook.emit('acme', 'order.paid', %s)", ['{"after": 1}'])
        self.receiver.wait_for({"after": 1})
        self.assertNotIn({"gone": 1}, self.receiver.data())


if __name__ == "__main__":
    unittest.main()
