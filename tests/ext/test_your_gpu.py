"""The modules that run on the reader's GPU become one classic script."""

import re

from _ext.your_gpu import PARTS, WEB, bundle


def test_all_modules_share_one_scope_in_which_no_name_stands_twice() -> None:
    assert {path.stem for path in WEB.glob("*.js")} == set(PARTS)
    script = bundle()
    assert not re.search(r"(?m)^(import|export)\b", script)
    names = re.findall(r"(?m)^(?:async )?(?:function|class|const|let) (\w+)", script)
    assert len(names) == len(set(names)) > 50
