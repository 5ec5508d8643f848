"""Frames of an agent in its own process, held back until it has processed them.

Such an agent gets the frames between two decisions together, after they were played. If
it fails at one of them, the rows from that frame on are dropped: the rows of a run are
then the same as with the agent in this process.
"""

from __future__ import annotations

from longplay.contract.digests import ends_block
from longplay.contract.rows import EpisodeRow, EventRow, SegmentRow
from longplay.runs.recorder import Recorder
from longplay.stream import Stream
from longplay.tracks.participant import Participant

# A frame, the rows that it ended, and the CRC-32 of the memory after it.
_Frame = tuple[EventRow, EpisodeRow | None, SegmentRow | None, int]


class HeldFrames:
    """Passes frames on to a recorder, once the agent has processed them."""

    def __init__(self, participant: Participant, recorder: Recorder) -> None:
        self._participant = participant
        self._recorder = recorder
        self._frames: list[_Frame] = []

    @property
    def count(self) -> int:
        """Number of frames that are held back."""
        return len(self._frames)

    def write_frame(self, event: EventRow, stream: Stream) -> None:
        """Takes the frame that a stream just played, and everything it ended."""
        if not self._participant.unconfirmed:
            if self._frames:
                self.release()
            self._recorder.write_frame(event, stream)
            return
        episode = segment = None
        if event.terminated or event.truncated:
            episode, segment = stream.ended_episode, stream.ended_segment
        self._frames.append((event, episode, segment, stream.ram_crc32))

    def release(self) -> None:
        """Passes on all frames."""
        frames, self._frames = self._frames, []
        recorder = self._recorder
        for event, episode, segment, ram_crc32 in frames:
            recorder.write(event)
            if episode is not None:
                recorder.write_ends(episode, segment)
            if ends_block(event):
                recorder.write_digest(event, ram_crc32)

    def drop_unprocessed(self, sent: int, next_frame: int) -> int:
        """After an agent's error: passes on only the frames before it.

        Args:
            sent: Number of frames that were sent to the agent, the first of which is
                the first frame that is held back.
            next_frame: The next frame to be played.

        Returns:
            The frame at which the agent failed.
        """
        processed = sent - self._participant.unconfirmed
        first = self._frames[0][0].global_frame_idx if self._frames else next_frame
        del self._frames[processed:]
        self.release()
        return first + processed
