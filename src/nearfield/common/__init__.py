"""What every other folder uses: arrays, memory, threads, files, messages. It imports nothing of the library."""
