/**
 * Pages that start servers of others, as their reader follows them, with stand-ins where a server
 * is no Debian package. Prints how long each takes until the first recommendation.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, expect, test } from 'vitest'
import { freePort } from '../profiler/testing/free-port.ts'
import { journeys } from './testing/documentation/journeys.ts'
import { readSteps, type Step } from './testing/documentation/page.ts'
import { PageRunner } from './testing/documentation/page-runner.ts'
import { SharedRuns } from './testing/documentation/shared-runs.ts'
import {
  chooseColumns,
  expectAsShown,
  handleFile,
  showsResult,
} from './testing/documentation/shown.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

const shared = new SharedRuns()
afterAll(() => shared.end())

let runner: PageRunner | undefined
let server: ChildProcess | undefined
afterEach(async () => {
  if (server?.pid !== undefined && server.exitCode === null) server.kill('SIGKILL')
  server = undefined
  await runner?.box.end()
})

/** A journey, ready to be followed: its steps, its folder, and stand-ins on its PATH. */
class Traveller {
  readonly steps: readonly Step[]
  readonly runner: PageRunner
  readonly #markdown: string

  constructor({ page, section }: { readonly page: string; readonly section?: string }) {
    this.#markdown = readFileSync(join(root, page), 'utf8')
    const isOfJourney = (title: string) => section === undefined || title === section
    this.steps = readSteps(this.#markdown).filter((step) => isOfJourney(step.section))
    expect(this.steps, `${page} has no commands in '${section}'`).not.toEqual([])
    const servers: Record<string, string> = { TUNE_TIME_LIMIT: '10s' }
    this.runner = new PageRunner(shared, { page, columns: chooseColumns(this.steps), servers })
    servers.PATH = `${this.bin}:${process.env.PATH}`
    runner = this.runner
  }

  get folder(): string {
    return this.runner.box.folder
  }

  private get bin(): string {
    return join(this.folder, '.bin')
  }

  /** Puts a program that runs a command on the PATH; returns its file. */
  putOnPath(program: string, command: string): string {
    mkdirSync(this.bin, { recursive: true })
    const file = join(this.bin, program)
    writeFileSync(file, `#!/bin/sh\nexec ${command} "$@"\n`)
    chmodSync(file, 0o755)
    return file
  }

  /** A stand-in of trials/launchers/testing. */
  standIn(program: string, script: string): string {
    const source = join(root, 'trials/launchers/testing', script)
    return this.putOnPath(program, `'${process.execPath}' '${source}'`)
  }

  /** Writes an indented block of the page that begins with this line. */
  writeIndented(name: string, first: string): void {
    const [block] =
      new RegExp(`^ {4}${first}(?:\\n {4}.*)*`, 'm').exec(this.#markdown) ??
      expect.unreachable(`no block begins with ${first}`)
    this.runner.write(name, `${block.replace(/^ {4}/gm, '')}\n`)
  }

  /**
   * Runs the steps in their order; skips the test where a busy machine leaves nothing to go on
   * with.
   */
  async follow(
    skip: (note: string) => void,
    replaced: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const replace = (word: string) =>
      Object.entries(replaced).reduce((text, [from, to]) => text.replace(from, to), word)
    const startedMs = performance.now()
    let recommendedAfterS: number | undefined
    for (const [i, step] of this.steps.entries()) {
      if (step.kind !== 'command') {
        handleFile(step, this.runner)
        continue
      }
      const command = { ...step.command, words: step.command.words.map(replace) }
      const outcome = await this.runner.run(command, showsResult(this.steps.slice(i)))
      await expectAsShown(command, outcome, shared)
      const [file] = /tune-results\/[^\s"/]+\/recommendation\.json/.exec(outcome.stdout) ?? []
      if (file === undefined) continue
      const { best, verdict } = JSON.parse(this.runner.read(file))
      if (best === undefined) skip(`no recommendation from a second of load: ${verdict}`)
      recommendedAfterS ??= (performance.now() - startedMs) / 1000
    }
    console.info(`${recommendedAfterS?.toFixed(0)} s to the first recommendation`)
    expect(recommendedAfterS).toBeDefined()
  }
}

const findMissing = (...modules: readonly string[]) =>
  modules.filter((name) => spawnSync('/usr/bin/python3', ['-c', `import ${name}`]).status !== 0)

/** What is missing for Flask under gunicorn, as a note; empty if nothing is. */
const findMissingForFlask = (): string =>
  spawnSync('gunicorn', ['--version']).status !== 0 || findMissing('flask').length > 0
    ? 'gunicorn or Flask not installed: apt-get install gunicorn python3-flask'
    : ''

test('a FastAPI application', async ({ skip }) => {
  const missing = findMissing('fastapi', 'uvicorn', 'torch')
  if (missing.length > 0)
    skip(
      `not installed: ${missing.join(', ')}; apt-get install python3-torch python3-fastapi python3-uvicorn`,
    )
  const traveller = new Traveller(journeys.fastapi)
  traveller.putOnPath('uvicorn', '/usr/bin/python3 -m uvicorn')
  await traveller.follow(skip)
  expect(traveller.runner.read('deploy/deployment.yaml')).toContain('registry.example/')
})

test('the server of the README', async ({ skip }) => {
  const missing = findMissingForFlask()
  if (missing.length > 0) skip(missing)
  const traveller = new Traveller(journeys.readme)
  traveller.runner.write('app.py', plainApp)
  await traveller.follow(skip)
})

test('Triton or TensorFlow Serving that already runs', async ({ skip }) => {
  const traveller = new Traveller(journeys.tfserving)
  const program = traveller.standIn('tensorflow_model_server', 'tfserving.mjs')
  mkdirSync(join(traveller.folder, 'models/half_plus_two/1'), { recursive: true })
  const port = String(await freePort())
  const flags = [
    `--rest_api_port=${port}`,
    '--port=0',
    '--model_name=half_plus_two',
    '--model_base_path=models/half_plus_two',
  ]
  server = spawn(program, flags, { cwd: traveller.folder, stdio: 'ignore' })
  const answers = () =>
    fetch(`http://127.0.0.1:${port}/v1/models/half_plus_two`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await answers())) await sleep(50)
  await traveller.follow(skip, { 8501: port })
})

test('a language model on vLLM', async ({ skip }) => {
  const traveller = new Traveller(journeys.vllm)
  traveller.standIn('vllm', 'vllm.mjs')
  await traveller.follow(skip)
  const written = traveller.runner.read('experiment.yaml')
  for (const knob of ['maxNumSeqs', 'maxNumBatchedTokens', 'gpuMemoryUtilization'])
    expect(written).toMatch(new RegExp(`^ {2}${knob}: `, 'm'))
})

test('Flask, gunicorn and TensorFlow Serving on CPU', async ({ skip }) => {
  const missing = findMissingForFlask()
  if (missing.length > 0) skip(missing)
  const traveller = new Traveller(journeys.flask)
  traveller.standIn('tensorflow_model_server', 'tfserving.mjs')
  mkdirSync(join(traveller.folder, 'models/half_plus_two/1'), { recursive: true })
  const isGiven = (name: string) =>
    traveller.steps.some((step) => step.kind === 'file' && step.name === name)
  if (!isGiven('serve.sh')) traveller.writeIndented('serve.sh', '#!/bin/sh')
  if (!isGiven('app.py')) traveller.runner.write('app.py', flaskApp)
  await traveller.follow(skip)
})

test('an ONNX file', async ({ skip }) => {
  const traveller = new Traveller(journeys.onnx)
  const model = join(root, 'examples/triton/models/dense/1/model.onnx')
  cpSync(model, join(traveller.folder, 'model.onnx'))
  await traveller.follow(skip)
})

const plainApp = `
from flask import Flask, jsonify, request

app = Flask(__name__)


@app.post("/predict")
def predict():
    return jsonify(words=len(str(request.get_json()).split()))
`

/** Asks TensorFlow Serving at $TFS. */
const flaskApp = `
import json
import os
from urllib.request import Request, urlopen

from flask import Flask, jsonify, request

app = Flask(__name__)


@app.post("/classify")
def classify():
    text = request.get_json()["text"]
    asked = Request(os.environ["TFS"], json.dumps({"instances": [float(len(text))]}).encode(), {"content-type": "application/json"})
    score = json.load(urlopen(asked))["predictions"][0]
    return jsonify(label="long" if score > 20 else "short", score=score)
`
