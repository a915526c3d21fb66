#!/usr/bin/env node
/** `tune`. */
import { CommanderError } from 'commander'
import { exitCodes } from './exit-codes.ts'
import { reportError } from './report-error.ts'
import { commandLine } from './tune-program.ts'

// A reader that went away (`tune list | head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})

try {
  await commandLine().parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
  else process.exitCode = reportError(error, process.stderr)
}
