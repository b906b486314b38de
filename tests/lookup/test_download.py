"""Downloads against a real HTTP server on loopback, with the answers that go wrong in practice."""

import contextlib
import gzip
import hashlib
import shutil
import ssl
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hpobench_nmt.core.system.errors import RunError
from hpobench_nmt.lookup.catalogue import load_table
from hpobench_nmt.lookup.collections import COLLECTIONS
from hpobench_nmt.lookup.download import Limits, download

CONTENT = b"18.2\t771.8654\n" * 500
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FAST = Limits(max_bytes=20_000, connect_s=1, read_s=0.4, total_s=1.0, tries=3, pause_s=0.01)
# Where the time is not what is tested: the machine may be busy.
PATIENT = Limits(max_bytes=20_000, tries=3, pause_s=0.01)


class Server:
    """Serves `files`; `faults` maps a path to the answers to give first, one a request."""

    def __init__(self, encryption=None):
        self.files = {"/f": CONTENT}
        self.faults = {}
        self.requests = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.requests.append(self.path)
                left = server.faults.get(self.path, [])
                fault = left.pop(0) if left else None
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client hangs up
                    server.answer(self, fault)
                self.close_connection = True

            def log_message(self, *arguments):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if encryption is not None:
            self._http.socket = encryption.wrap_socket(self._http.socket, server_side=True)
        self.address = f"{'https' if encryption else 'http'}://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request, fault):
        if isinstance(fault, str) and fault.startswith("to "):
            request.send_response(302)
            request.send_header("Location", fault.removeprefix("to "))
            request.send_header("Content-Length", "0")
            request.send_header("Connection", "close")  # as it will, which the client must not find out late
            request.end_headers()
            return
        if fault == "dripping headers":
            for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100:
                request.wfile.write(bytes([byte]))
                request.wfile.flush()
                time.sleep(0.1)
            return
        content = self.files.get(request.path)
        if content is None or isinstance(fault, int):
            request.send_response(fault or 404)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        request.send_response(200)
        if fault == "no length":
            request.end_headers()
            request.wfile.write(content[: len(content) // 2])
            return
        if fault == "oversized":
            content = content * 100
        if fault == "tampered":
            content = b"9" + content[1:]
        if isinstance(fault, tuple):  # encodings, one after the other
            for _ in fault:
                content = gzip.compress(content)
            request.send_header("Content-Encoding", ", ".join(fault))
        if fault == "too short a length":
            request.send_header("Content-Length", "100")
            request.end_headers()
            request.wfile.write(content)
            return
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if fault == "silent":
            time.sleep(1.0)
        elif fault == "truncated":
            request.wfile.write(content[: len(content) // 2])
        elif fault == "dripping":
            for i in range(len(content)):
                request.wfile.write(content[i : i + 1])
                request.wfile.flush()
                time.sleep(0.1)
        else:
            request.wfile.write(content)

    def close(self):
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_a_good_answer_is_taken_at_once(server):
    assert download(f"{server.address}/f", SHA256, FAST) == CONTENT
    assert server.requests == ["/f"]


@pytest.mark.parametrize(
    "fault", ["truncated", "no length", "tampered", "silent", "oversized", 500, 503, 429]
)
def test_a_passing_fault_is_tried_again(server, fault):
    server.faults["/f"] = [fault]
    assert download(f"{server.address}/f", SHA256, FAST) == CONTENT
    assert server.requests == ["/f", "/f"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("truncated", "cut short|connection broke"),
        ("no length", "SHA-256"),
        ("tampered", "SHA-256"),
        ("silent", r"no answer within 0\.4 s"),
        ("dripping", r"did not arrive within 1 s"),
        ("dripping headers", r"did not arrive within 1 s"),
        ("too short a length", "SHA-256"),
        ("oversized", "larger than 20,000 bytes"),
        (503, "answered 503"),
    ],
)
def test_a_lasting_fault_is_an_error_that_says_why(server, fault, reason):
    server.faults["/f"] = [fault] * 3
    with pytest.raises(RunError, match=reason) as error:
        download(f"{server.address}/f", SHA256, FAST)
    assert f"{server.address}/f" in str(error.value)
    assert len(server.requests) == 3


@pytest.fixture
def other_server():
    server = Server()
    yield server
    server.close()


def test_a_redirect_to_another_host_is_followed(server, other_server):
    server.faults["/f"] = [f"to {other_server.address}/f".replace("127.0.0.1", "localhost")]
    assert download(f"{server.address}/f", SHA256, PATIENT) == CONTENT
    assert other_server.requests == ["/f"]


@pytest.mark.parametrize(
    ("place", "reason", "requests"),
    [
        ("/f", "redirects more than 5 times", 6),
        ("file:///etc/passwd", "redirects to an address that is not on the web", 1),
        ("ftp://127.0.0.1/f", "redirects to an address that is not on the web", 1),
    ],
)
def test_a_redirect_that_leads_nowhere_is_an_error_at_once(server, place, reason, requests):
    server.faults["/f"] = [f"to {place}"] * 50
    with pytest.raises(RunError, match=reason):
        download(f"{server.address}/f", SHA256, PATIENT)
    assert len(server.requests) == requests


@pytest.fixture
def encrypted_server(tmp_path, monkeypatch):
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    options = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=it"]
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", "req", "-x509", *options, *extra], check=True, capture_output=True)
    encryption = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encryption.load_cert_chain(certificate, key)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    server = Server(encryption)
    yield server
    server.close()


def test_encryption_is_kept(encrypted_server, server):
    """An archive without a hash could be another one, if it came without encryption."""
    address = f"{encrypted_server.address}/f"
    assert download(address, None, PATIENT) == CONTENT
    encrypted_server.faults["/f"] = [f"to {encrypted_server.address}/f"]
    assert download(address, None, PATIENT) == CONTENT
    encrypted_server.faults["/f"] = [f"to {server.address}/f"] * 5
    with pytest.raises(RunError, match="redirects to an address without encryption"):
        download(address, None, PATIENT)
    assert server.requests == ["/f"]


def test_encodings_that_multiply_are_refused(server):
    server.faults["/f"] = [("gzip",)]
    assert download(f"{server.address}/f", SHA256, PATIENT) == CONTENT
    server.faults["/f"] = [("gzip", "gzip")] * 5
    with pytest.raises(RunError, match="encodes the file as 'gzip, gzip'"):
        download(f"{server.address}/f", SHA256, PATIENT)
    assert len(server.requests) == 2
    server.files["/f"] = bytes(10 * FAST.max_bytes)
    server.faults["/f"] = [("gzip",)] * 5
    with pytest.raises(RunError, match="larger than 20,000 bytes"):
        download(f"{server.address}/f", SHA256, PATIENT)


def test_a_file_that_is_not_there_is_not_asked_for_again(server):
    with pytest.raises(RunError, match="answered 404"):
        download(f"{server.address}/missing", SHA256, FAST)
    assert server.requests == ["/missing"]


def test_nobody_listening_is_an_error(server):
    server.close()
    with pytest.raises(RunError, match="connection failed"):
        download(f"{server.address}/f", SHA256, FAST)


@pytest.fixture
def published(server, authors_files):
    """The authors' files on the server; skipped where they are not at hand."""
    server.files = {f"/{name}": (authors_files / name).read_bytes() for name in COLLECTIONS["nmthpo"].sha256}
    return server


def test_fetch_installs_all_six_tables(published, home, run_here):
    published.faults["/zh-en.evals"] = ["truncated"]
    done = run_here("tables", "fetch", "nmthpo", "--from", published.address)
    assert "Installed zh-en, ru-en, ja-en, en-ja, sw-en, so-en" in done.stdout
    rows = {"zh-en": 118, "ru-en": 176, "ja-en": 150, "en-ja": 168, "sw-en": 767, "so-en": 604}
    assert {name: len(load_table(name)) for name in COLLECTIONS["nmthpo"].tables} == rows


def test_fetch_installs_nothing_when_one_file_is_wrong(published, home, run_here):
    published.faults["/so-en.hyps"] = ["tampered"] * 10
    done = run_here("tables", "fetch", "nmthpo", "--from", published.address, check=1)
    assert "so-en.hyps: the file has SHA-256" in done.stderr
    assert not list(home.rglob("*.csv"))
    assert not (home / "cache").exists() or not list((home / "cache").iterdir())


def test_fetch_keeps_the_old_tables_when_one_file_is_wrong(published, home, run_here):
    run_here("tables", "fetch", "nmthpo", "--from", published.address)
    before = load_table("zh-en").sha256
    published.faults["/so-en.hyps"] = [404]
    run_here("tables", "fetch", "nmthpo", "--from", published.address, check=1)
    assert load_table("zh-en").sha256 == before


def test_the_size_is_counted_over_all_that_arrives(server):
    """More than one reading at a time takes, so that the sum decides and not the last part."""
    content = b"0123456789" * 30_000
    server.files["/large"] = content
    sha256 = hashlib.sha256(content).hexdigest()
    assert download(f"{server.address}/large", sha256, Limits(max_bytes=len(content))) == content
    with pytest.raises(RunError, match="larger than 299,999 bytes"):
        download(f"{server.address}/large", sha256, Limits(max_bytes=len(content) - 1, tries=1))


def test_pauses_double_and_a_bad_request_is_not_repeated(server, monkeypatch):
    pauses, here, sleep = [], threading.get_ident(), time.sleep
    monkeypatch.setattr(  # servers of other tests may still be sleeping in their threads
        "hpobench_nmt.lookup.download.time.sleep",
        lambda seconds: pauses.append(seconds) if threading.get_ident() == here else sleep(seconds),
    )
    server.faults["/f"] = [503] * 5
    with pytest.raises(RunError, match="answered 503"):
        download(f"{server.address}/f", SHA256, Limits(tries=4, pause_s=0.25))
    assert pauses == [0.25, 0.5, 1.0]
    server.faults["/f"] = [400]
    with pytest.raises(RunError, match="answered 400"):
        download(f"{server.address}/f", SHA256, FAST)
    assert len(server.requests) == 5
