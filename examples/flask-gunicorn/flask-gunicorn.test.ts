import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../../profiler/load/http-generator.ts'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { findTemplateProblems } from '../../trials/launchers/template-problems.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import type { Predictor } from '../../trials/types.ts'
import { createHostContext } from '../../tuner/config/host-context.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'

const here = dirname(fileURLToPath(import.meta.url))

/** Undefined when what the example needs is there. */
const missing = (): string | undefined => {
  if (process.platform !== 'linux') return 'it counts processes in /proc, which only Linux has'
  try {
    // The interpreter that gunicorn itself runs under must have Flask.
    execFileSync('gunicorn', ['--check-config', '--chdir', here, 'predictor:app'], {
      stdio: 'pipe',
      env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
    })
    return undefined
  } catch (error) {
    const { code, stderr } = error as { code?: string; stderr?: Buffer }
    return code === 'ENOENT'
      ? 'gunicorn is not installed'
      : `gunicorn cannot load the predictor: ${stderr?.toString().trim().split('\n').at(-1)}`
  }
}
const absent = missing()

const machine = await inspectMachine()
/** The experiment as a user runs it; on a machine with fewer cores, with those. */
const { predictor: template, space } = loadExperiment({
  file: join(here, 'experiment.yaml'),
  flags: machine.affinity.length < 2 ? { cores: '1' } : {},
  ...createHostContext(machine),
})
if (template.kind !== 'command') throw new Error('the experiment has a predictor of its own')

test('the experiment file is sound: every tuned value reaches gunicorn', () => {
  expect(template).toMatchObject({ kind: 'command', cwd: here, protocol: 'json', path: '/predict' })
  expect(findTemplateProblems(template, space.parameters)).toEqual([])
})

describe.skipIf(absent !== undefined)(
  `Flask under gunicorn${absent === undefined ? '' : ` (skipped: ${absent}; Debian: apt-get install gunicorn python3-flask)`}`,
  () => {
    let folder: string
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'tune-flask-'))
    })
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    const launch = (configuration: Record<string, number | string>, trial: number) =>
      createLocalLauncher({
        template,
        parameters: space.parameters,
        protocol: protocolFor('json', { expect: 'label' }),
        payload: { kind: 'generated', seed: 1, count: 4 },
        runDirectory: join(folder, 'experiment'),
        machine,
      }).launch(configuration, trial, new AbortController().signal)

    /** Pids of gunicorn's processes whose arguments bind the predictor's port. */
    const processesOf = (predictor: Predictor): number[] => {
      const { port } = new URL((predictor.target as { url: string }).url)
      return readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .filter((pid) => {
          try {
            return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`--bind=127.0.0.1:${port}`)
          } catch {
            // It ended while we looked.
            return false
          }
        })
        .map(Number)
    }

    test.each([
      [{ workers: 1, workerClass: 'gthread', threads: 4, cpuCores: 1 }, 2],
      [{ workers: 3, workerClass: 'sync', threads: 1, cpuCores: 1 }, 4],
    ])(
      'with %j it answers from its workers, and stops with all of them',
      async (configuration, processes) => {
        const predictor = await launch(configuration, configuration.workers)
        try {
          const { target } = predictor
          if (target.kind !== 'http') throw new Error('not http')
          for (const { body, contentType } of target.bodies) {
            const response = await fetch(target.url + target.path, {
              method: 'POST',
              body: Buffer.from(body),
              headers: { 'content-type': contentType },
            })
            expect(await response.json()).toMatchObject({
              label: expect.any(String),
              score: expect.any(Number),
            })
          }
          expect(processesOf(predictor)).toHaveLength(processes)
          expect(predictor.logTail()).toContain(`Using worker: ${configuration.workerClass}`)
          expect((await predictor.usage()).peakRssMiB).toBeGreaterThan(10)
        } finally {
          await predictor.stop()
        }
        expect(processesOf(predictor)).toEqual([])
        expect(readdirSync(join(folder, 'running'))).toEqual([])
      },
    )

    test('gunicorn’s default, which closes its connection with each answer, fails no request', async () => {
      const predictor = await launch(
        { workers: 2, workerClass: 'sync', threads: 1, cpuCores: 1 },
        5,
      )
      const generator = new HttpLoadGenerator()
      const { signal } = new AbortController()
      try {
        const arrivals = { kind: 'poisson' } as const
        for (const load of [
          { kind: 'closed', connections: 2, durationS: 0.4 },
          { kind: 'closed', connections: 16, durationS: 0.4 },
          { kind: 'open', rateRps: 60, arrivals, durationS: 0.5, seed: 1 },
        ] as const) {
          const run = await generator.play(predictor.target, load, signal)
          expect({ load, errorKinds: run.errorKinds }).toEqual({ load, errorKinds: {} })
          expect(run.connections?.opened).toBeGreaterThanOrEqual(run.latencyMs.length)
        }
      } finally {
        await generator.close()
        await predictor.stop()
      }
    })

    test('a worker class that is not installed is the environment’s fault, with what gunicorn said', async () => {
      await expect(
        launch({ workers: 1, workerClass: 'fibres', threads: 1 }, 9),
      ).rejects.toMatchObject({
        name: 'LaunchError',
        message: expect.stringContaining('fibres'),
      })
    })
  },
)
