import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../profiler/protocols/index.ts'
import { createLocalLauncher } from '../../trials/launchers/local/local-launcher.ts'
import { findTemplateProblems } from '../../trials/launchers/template-problems.ts'
import { inspectMachine } from '../../trials/machine/machine-facts.ts'
import { createHostContext } from '../../tuner/config/host-context.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'

const here = dirname(fileURLToPath(import.meta.url))
const machine = await inspectMachine()
const { predictor: template, space } = loadExperiment({
  file: join(here, 'experiment.yaml'),
  flags: machine.affinity.length < 2 ? { cores: '1' } : {},
  ...createHostContext(machine),
})
if (template.kind !== 'command') throw new Error('the experiment has a predictor of its own')

/** Programs that the example needs and that are not there. */
const absent = [
  ['nginx', '-v'],
  ['gunicorn', '--version'],
  ['python3', '--version'],
].flatMap(([program, flag]) => {
  try {
    execFileSync(program!, [flag!], { stdio: 'pipe' })
    return []
  } catch {
    // Not installed, which the name of the suite says.
    return [program!]
  }
})

test('the experiment file is sound: every tuned value reaches the web tier', () => {
  expect(findTemplateProblems(template, space.parameters)).toEqual([])
})

describe.skipIf(absent.length > 0)(
  `nginx, gunicorn and the model server${absent.length === 0 ? '' : ` (skipped: no ${absent.join(', ')}; Debian: apt-get install nginx-light gunicorn)`}`,
  () => {
    let folder: string
    let path: string | undefined
    beforeAll(() => {
      folder = mkdtempSync(join(tmpdir(), 'tune-web-'))
      // `tune` as it is installed.
      const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
      writeFileSync(join(folder, 'tune'), `#!/bin/sh\nexec '${process.execPath}' '${cli}' "$@"\n`)
      chmodSync(join(folder, 'tune'), 0o755)
      path = process.env.PATH
      process.env.PATH = `${folder}:${path}`
    })
    afterAll(() => {
      process.env.PATH = path
      rmSync(folder, { recursive: true, force: true })
    })

    /** Ended ones whose parent has not looked do not live. */
    const lives = (pid: string): boolean => {
      try {
        return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
      } catch {
        // It is gone.
        return false
      }
    }

    /**
     * Processes that have the trial's folder among their arguments or environment, and their
     * children: nginx's workers write over theirs.
     */
    const processes = (): { pid: string; parent: string; line: string }[] => {
      const all = readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
        .flatMap((pid) => {
          try {
            const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
            const ours = `${line} ${readFileSync(`/proc/${pid}/environ`, 'utf8')}`.includes(folder)
            return [
              {
                pid,
                parent: /^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]!,
                line,
                ours,
              },
            ]
          } catch {
            // It ended while we looked.
            return []
          }
        })
      const ours = new Set(all.filter((one) => one.ours).map(({ pid }) => pid))
      return all.filter(({ pid, parent }) => ours.has(pid) || ours.has(parent))
    }

    test('answers through all three, and stops with all of them', async () => {
      const launcher = createLocalLauncher({
        template,
        parameters: space.parameters,
        protocol: protocolFor('json', { path: '/classify', expect: 'label' }),
        payload: { kind: 'generated', seed: 1, count: 2 },
        runDirectory: join(folder, 'experiment'),
        machine,
      })
      const configuration = {
        cpuCores: 1,
        workers: 2,
        workerClass: 'gthread',
        threads: 4,
        batchSize: 4,
        maxDelayMs: 2,
      }
      let running: ReturnType<typeof processes> = []
      const predictor = await launcher.launch(configuration, 1, new AbortController().signal)
      try {
        const { target } = predictor
        if (target.kind !== 'http') throw new Error('not http')
        const answers = await Promise.all(
          [...target.bodies, ...target.bodies].map(async ({ body }) => {
            const response = await fetch(target.url + target.path, {
              method: 'POST',
              body: Buffer.from(body),
            })
            return { server: response.headers.get('server'), reply: await response.json() }
          }),
        )
        for (const { server, reply } of answers) {
          expect(server).toMatch(/^nginx/)
          expect(reply).toMatchObject({
            label: expect.stringMatching(/^(negative|positive)$/),
            logit: expect.any(Number),
          })
        }
        const wrong = await fetch(target.url + target.path, { method: 'POST', body: '{"txt": 1}' })
        expect([wrong.status, await wrong.json()]).toEqual([400, { error: 'send {"text": "..."}' }])
        running = processes()
        expect(running.filter(({ line }) => line.includes('gunicorn'))).toHaveLength(3)
        expect(running.filter(({ line }) => line.startsWith('nginx: '))).toHaveLength(2)
        expect(running.some(({ line }) => line.includes('predictor --model=bert-tiny'))).toBe(true)
      } finally {
        await predictor.stop()
      }
      expect(processes()).toEqual([])
      expect(running.filter(({ pid }) => lives(pid))).toEqual([])
      expect(readdirSync(join(folder, 'running'))).toEqual([])
    })
  },
)
