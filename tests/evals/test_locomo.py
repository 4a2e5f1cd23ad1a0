"""`python -m evals.locomo`: recall on conversations in the format of LoCoMo."""

import json
import subprocess
import sys
from pathlib import Path

LOCOMO = [
    {
        "sample_id": "c1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a dog called Rex."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Lovely, what breed is he?"},
                {"speaker": "Ann", "dia_id": "D1:3", "text": "A beagle, three years old."},
            ],
        },
        "qa": [{"question": "What breed is Rex?", "evidence": ["D1:3"], "category": 4}],
    }
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evals.locomo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_locomo(tmp_path: Path) -> None:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(LOCOMO))
    report = json.loads(run(str(file), "--json").stdout)
    assert (report["turns"], report["questions"]) == (3, 1)
    assert report["systems"]["fused"]["recall@5"] == 1.0
    assert set(report["systems"]) >= {"keyword", "semantic", "fused with vectors", "causal"}
    table = run(str(file)).stdout
    assert "single-hop" in table
    file.write_text("[1]")
    assert run(str(file)).returncode == 2
