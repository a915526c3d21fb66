/**
 * Whether what is confirmed of a server of others holds minutes later under a client of others:
 * `npm run bench:main-job -- foreign [runs] [--wait S]`, about five minutes a run. Flask, gunicorn
 * and PyTorch from Debian (experiment.yaml); a client in Python (client.py). Each run tunes,
 * waits S seconds (default 120), starts the recommended configuration anew, warms it up for five
 * seconds and plays the confirmed rate for three windows of 30 s, half a minute apart. Prints how
 * many of them met the SLO; at least nine in ten should.
 */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { selectQuantile } from '../../../profiler/statistics/percentile.ts'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { formatTable } from '../../cli/render/columns.ts'
import { createHostContext } from '../../config/host-context.ts'
import { loadExperiment } from '../../config/load-experiment.ts'
import { openBackend } from '../../run/assemble.ts'
import { type MainJobRun, runMainJob } from '../main-job.ts'

const folderFile = (name: string) => fileURLToPath(new URL(name, import.meta.url))
const python = '/usr/bin/python3'
const windowS = 30
const windows = 3
const betweenS = 30
const warmUpS = 5

/** Percentiles of the SLO that the client finds, ms; Infinity where too many requests fail. */
async function playConfirmed(run: MainJobRun, seed: number): Promise<number[]> {
  const { best, confirmation, slo } = run.recommendation
  if (best === undefined || !confirmation?.met) return []
  const machine = await inspectMachine()
  const experiment = loadExperiment({
    file: folderFile('experiment.yaml'),
    flags: {},
    ...createHostContext(machine),
  })
  const backend = await openBackend(experiment, 'foreign-job', machine)
  const { signal } = new AbortController()
  try {
    const predictor = await backend.launcher.launch(best.configuration, 1, signal)
    try {
      const { target } = predictor
      if (target.kind !== 'http') throw new Error('the server is not asked over HTTP')
      const play = async (seconds: number, windowSeed: number) => {
        const { stdout } = await promisify(execFile)(
          python,
          [
            folderFile('client.py'),
            target.url + target.path,
            String(target.bodies[0]!.body),
            String(confirmation.rateRps),
            String(seconds),
            String(windowSeed),
          ],
          { maxBuffer: 1e9 },
        )
        const tookMs = Float64Array.from(stdout.trim().split('\n'), (line) =>
          Number(line) < 0 ? Number.POSITIVE_INFINITY : Number(line),
        )
        return selectQuantile(tookMs.sort(), slo.percentile)
      }
      await play(warmUpS, 1000 * seed)
      const found: number[] = []
      for (let i = 1; i <= windows; i++) {
        if (i > 1) await sleep(1000 * betweenS)
        found.push(await play(windowS, 1000 * seed + i))
      }
      return found
    } finally {
      await predictor.stop()
    }
  } finally {
    await backend.close()
  }
}

/** Prints a row a run, and how many windows of how many met the SLO. */
export async function runForeignJobs(args: readonly string[]): Promise<void> {
  const given = [...args]
  const waitAt = given.indexOf('--wait')
  const waitS = waitAt < 0 ? 120 : Number(given.splice(waitAt, 2)[1])
  const runs = Number(given[0] ?? 4)
  if (!(waitS >= 0 && Number.isInteger(runs) && runs >= 1))
    throw new Error('foreign takes a number of runs, --wait seconds')
  const absent = ['gunicorn', 'flask', 'torch'].filter(
    (name) => spawnSync(python, ['-c', `import ${name}`]).status !== 0,
  )
  if (absent.length > 0)
    throw new Error(
      `not installed: ${absent.join(', ')}; Debian: apt-get install gunicorn python3-flask python3-torch`,
    )
  const folder = mkdtempSync(join(tmpdir(), 'foreign-job-'))
  const flags = ['-f', folderFile('experiment.yaml')]
  const rows = [
    ['seed', 'exit', 'seconds', 'recommended', 'status', 'confirmed, req/s', 'varied', 'client'],
  ]
  let [met, played] = [0, 0]
  for (let seed = 1; seed <= runs; seed++) {
    const run = await runMainJob(flags, seed, folder)
    const { best, confirmation, slo } = run.recommendation
    await sleep(1000 * waitS)
    const found = await playConfirmed(run, seed)
    played += found.length
    met += found.filter((ms) => ms <= slo.limitMs).length
    rows.push([
      String(seed),
      String(run.exitCode),
      run.seconds.toFixed(0),
      best?.label ?? 'none',
      best?.status ?? '-',
      confirmation?.met ? confirmation.rateRps.toFixed(0) : '-',
      confirmation?.variation?.found.join('; ') ?? '-',
      found.length === 0 ? '-' : `${found.map((ms) => ms.toFixed(0)).join(', ')} ms`,
    ])
    console.error(rows.at(-1)!.join('  '))
  }
  rmSync(folder, { recursive: true, force: true })
  console.log(
    `${formatTable(rows).join('\n')}\n\na client in Python met the SLO at the confirmed rate in ${met} of ${played} windows of ${windowS} s, ${waitS} s and more after the run (at least 9 of 10 should)`,
  )
}
