"""Re-exports for branches under way; removed with the next merge."""

from longplay.contract.config import *  # noqa: F403
from longplay.contract.documents import *  # noqa: F403
from longplay.contract.registry import *  # noqa: F403
from longplay.contract.rows import *  # noqa: F403
