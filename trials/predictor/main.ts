#!/usr/bin/env node
/**
 * The built-in predictor as a process. Prints one line of JSON when it is ready; exit codes are in
 * its help.
 */
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { OutOfMemoryError, outOfMemoryExitCode } from './engine.ts'
import { formatSettingsHelp, readSettings, SettingsError } from './settings.ts'

const portTakenExitCode = 98

/**
 * Serves until SIGTERM, SIGINT or the parent's end. Resolves with the exit code.
 * @param args flags without the program's name
 */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<number> {
  try {
    const settings = readSettings(args, env)
    if (!settings) {
      process.stdout.write(`${formatSettingsHelp()}\n`)
      return 0
    }
    const stopSignal = waitForStopSignal(settings.exitWithParent)
    const { startPredictor } = await import('./predictor.ts')
    const starting = startPredictor(
      settings,
      (values) => readSettings(args, { ...env, ...values })!,
    )
    const predictor = await Promise.race([starting, stopSignal])
    if (!predictor) {
      // After a failed start there is nothing to stop.
      void starting.then(
        (late) => late.stop(),
        () => undefined,
      )
      return 0
    }
    const { url, port, grpcPort, model, device, provenance } = predictor
    process.stdout.write(
      `${JSON.stringify({ ready: true, port, grpcPort, url, model, device, provenance })}\n`,
    )
    const death = await Promise.race([stopSignal, predictor.died])
    if (death) process.stderr.write(`predictor: ${death.what}\n`)
    await predictor.stop()
    if (!death) return 0
    return death.outOfMemory ? outOfMemoryExitCode : 1
  } catch (error) {
    process.stderr.write(`predictor: ${error instanceof Error ? error.message : error}\n`)
    return getExitCode(error)
  }
}

function getExitCode(error: unknown): number {
  if (error instanceof SettingsError) return 2
  if (error instanceof OutOfMemoryError) return outOfMemoryExitCode
  return (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? portTakenExitCode : 1
}

/** Resolves on the first SIGTERM or SIGINT, or when the parent ends. */
function waitForStopSignal(withParent: boolean): Promise<undefined> {
  return new Promise((resolve) => {
    const stop = () => resolve(undefined)
    process.once('SIGTERM', stop)
    process.once('SIGINT', stop)
    process.once('disconnect', stop)
    if (!withParent) return
    process.stdin.once('end', stop)
    process.stdin.once('error', stop)
    process.stdin.resume()
  })
}

if (
  process.argv[1] !== undefined &&
  realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)
)
  process.exit(await main(process.argv.slice(2)))
