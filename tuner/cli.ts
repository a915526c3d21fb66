#!/usr/bin/env node
/** `tune`. */
import { run } from './cli/tune-program.ts'

// A reader that went away (`tune list | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})

await run(process.argv.slice(2))
