/**
 * The example as its user runs it, and what `tune init` makes of its command, with Debian's PyTorch
 * and FastAPI.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findTemplateProblems } from '../../trials/launchers/fill.ts'
import { loadExperiment } from '../../tuner/config/load-experiment.ts'
import { CliBox, recommends } from '../../tuner/testing/run-cli.ts'

const here = dirname(fileURLToPath(import.meta.url))
const python = '/usr/bin/python3'
const absent = ['torch', 'fastapi', 'uvicorn'].filter(
  (name) => spawnSync(python, ['-c', `import ${name}`]).status !== 0,
)

test('the experiment file is sound: every tuned value reaches the server', () => {
  const machine = { cpuCores: 2, gpus: [] }
  const { predictor, space } = loadExperiment({
    file: join(here, 'experiment.yaml'),
    flags: {},
    environment: {},
    cwd: here,
    machine,
  })
  if (predictor.kind !== 'command') throw new Error('the experiment has a predictor of its own')
  expect(findTemplateProblems(predictor, space.parameters)).toEqual([])
})

describe.skipIf(absent.length > 0)(
  `PyTorch behind FastAPI${absent.length === 0 ? '' : ` (skipped: ${absent.join(', ')} not installed; Debian: apt-get install ${absent.map((name) => `python3-${name}`).join(' ')})`}`,
  () => {
    let box: CliBox
    beforeEach(() => {
      box = new CliBox()
      cpSync(here, box.folder, { recursive: true })
    })
    afterEach(() => box.end())

    test('runs as it stands', async ({ skip }) => {
      const flags = [
        '--slo',
        'p75<1s',
        '--max-trials',
        '1',
        '--trial-time',
        '1s',
        '--time-limit',
        '20s',
        '--no-confirm',
        '--json',
      ]
      const { code, stdout, stderr } = await box.run(['-f', 'experiment.yaml', ...flags])
      await box.skipIfDisturbed(skip)
      expect(recommends, stderr).toContain(code)
      expect(JSON.parse(stdout).best.label).toMatch(/workers \d, torchThreads \d/)
    })

    test('tune init recognises uvicorn and calls the application as it describes itself', async () => {
      const init = await box.run([
        'init',
        '--file',
        'mine.yaml',
        '--slo',
        '1s',
        '--no-smoke',
        python,
        '-m',
        'uvicorn',
        'app:app',
      ])
      expect(init, init.stderr).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('Recognised uvicorn: workers.'),
      })
      expect(readFileSync(join(box.folder, 'mine.yaml'), 'utf8')).toMatch(
        /path: \/predict\n {2}healthPath: \/healthz\n {2}body: '\{"text": "\{\{text\}\}"\}'/,
      )
      const config = await box.run(['config', '-f', 'mine.yaml'])
      expect(config, config.stderr).toMatchObject({ code: 0 })
    })
  },
)
