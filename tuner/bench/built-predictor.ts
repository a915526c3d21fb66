import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Configuration } from '../../search/types.ts'
import { createPredictorEnvironment } from '../../trials/launchers/builtin.ts'
import { nodeFlags } from '../../trials/predictor/node-flags.ts'
import { parseResources } from '../../trials/resources.ts'
import { onCores } from '../testing/on-cores.ts'

const entry = fileURLToPath(new URL('../../dist/trials/predictor/main.js', import.meta.url))

/**
 * Starts the built predictor with these flags, on these cores where they are given ('0,1', by
 * taskset), and ends it when the work is done; it ends by itself where this process is killed.
 */
export async function withBuiltPredictor<T>(
  flags: readonly string[],
  work: (url: string, pid: number) => Promise<T>,
  cores?: string,
): Promise<T> {
  const [program, ...args] = onCores(cores, [
    process.execPath,
    ...nodeFlags,
    entry,
    ...flags,
    '--port',
    '0',
    '--exit-with-parent',
  ])
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  try {
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout.once('data', (chunk) => resolve(String(chunk)))
      ended.then((code) => reject(new Error(`the predictor ended with ${code}; is dist built?`)))
    })
    return await work(JSON.parse(line).url, child.pid!)
  } finally {
    child.kill('SIGTERM')
    await ended
  }
}

/** The built-in predictor as a trial starts it, with an emulated GPU unless said. */
export function onBuiltin<T>(
  model: string,
  configuration: Configuration,
  work: (url: string) => Promise<T>,
  engine: 'emulated' | 'tfjs' = 'emulated',
): Promise<T> {
  const resources = parseResources(configuration)
  const settings = Object.entries(
    createPredictorEnvironment(
      { kind: 'builtin', model, engine },
      configuration,
      engine,
      resources,
    ),
  )
  const flags = settings.flatMap(([name, value]) => [
    `--${name.toLowerCase().replaceAll('_', '-')}`,
    value,
  ])
  return withBuiltPredictor(flags, work, resources.cpuCores <= 1 ? '1' : '0,1')
}
