/**
 * A server of this machine for the tests of backends: it serves one request at a time, some
 * milliseconds each.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { loadExperiment } from '../../config/load-experiment.ts'
import type { Experiment } from '../../config/types.ts'

const script = fileURLToPath(
  new URL('../../../trials/launchers/testing/server.mjs', import.meta.url),
)
/** Time of one request, ms. */
const usualMs = 2

/**
 * What every experiment on it says, with an SLO that a pause of a busy machine does not break; it
 * is stated as a predictor by one of the following.
 */
const brief = {
  model: 'm',
  slo: 'p75<100ms',
  devices: 'cpu',
  load: { trialTime: '1s', confirmTime: '1s' },
} as const
const plainJson = {
  protocol: 'json',
  path: '/predict',
  healthPath: '/healthz',
  body: '{}',
} as const

/** `behaviour`: 'serve', or 'mortal': it ends after thirty answers. */
export type Behaviour = 'serve' | 'mortal'

export const asCommand = (behaviour: Behaviour) => ({
  ...plainJson,
  command: [process.execPath, script, '--port=${port}'],
  env: { SERVICE_MS: String(usualMs), BEHAVIOUR: behaviour },
})
export const asUrl = (port: number) => ({ ...plainJson, url: `http://127.0.0.1:${port}` })
/** As a pod: what it runs is up to the test. */
export const asPod = plainJson

export interface Served {
  readonly port: number
  stop(): Promise<void>
}

export async function serve(behaviour: Behaviour, serviceMs = usualMs): Promise<Served> {
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, SERVICE_MS: String(serviceMs), BEHAVIOUR: behaviour },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('{')) continue
    const { port } = JSON.parse(line) as { port: number }
    return {
      port,
      stop: async () => {
        if (child.exitCode !== null || child.signalCode !== null) return
        const exited = once(child, 'exit')
        child.kill('SIGKILL')
        await exited
      },
    }
  }
  throw new Error('the test server ended before it listened')
}

/** The experiment of a document, read in a folder of the test's own. */
export function experimentIn(folder: string, document: object): Experiment {
  writeFileSync(join(folder, 'e.yaml'), JSON.stringify({ ...brief, ...document }))
  return loadExperiment({ file: 'e.yaml', cwd: folder, machine: { cpuCores: 2, gpus: [] } })
}
