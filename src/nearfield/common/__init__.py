"""What every folder uses: arrays, memory, threads, files, validation, messages. It imports nothing of the library."""
