/**
 * docs/paths.md as its reader follows it: each section from a folder with what it says, its
 * commands in their order, timed until the first recommendation.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { freePort } from '../profiler/testing/free-port.ts'
import { exitCodeOf } from './exit-codes.ts'
import { CliBox } from './testing/run-cli.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const [, ...sections] = readFileSync(join(root, 'docs/paths.md'), 'utf8').split(/^## /m)
const section = (title: string): string =>
  sections.find((text) => text.startsWith(title)) ??
  expect.unreachable(`docs/paths.md has no section '${title}'`)

/** Lines of a section's ```sh blocks, in words; single quotes honoured. */
const commandsOf = (text: string): string[][] =>
  [...text.matchAll(/```sh\n([\s\S]*?)```/g)]
    .flatMap(([, block]) => block!.trim().split('\n'))
    .map((line) =>
      [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!),
    )

/** Its block of text that begins so, without its indentation. */
function indented(text: string, first: string): string {
  const [block] =
    new RegExp(`^ {4}${first}(?:\\n {4}.*)*`, 'm').exec(text) ??
    expect.unreachable(`no block begins with ${first}`)
  return `${block.replace(/^ {4}/gm, '')}\n`
}

let box: CliBox | undefined
let server: ChildProcess | undefined
afterEach(async () => {
  if (server?.pid !== undefined && server.exitCode === null) server.kill('SIGKILL')
  server = undefined
  await box?.end()
})

/** Puts a stand-in of trials/launchers/testing on the PATH of the box. */
function standIn(program: string, script: string): void {
  const bin = join(box!.folder, '.bin')
  mkdirSync(bin, { recursive: true })
  const file = join(bin, program)
  writeFileSync(
    file,
    `#!/bin/sh\nexec '${process.execPath}' '${join(root, 'trials/launchers/testing', script)}' "$@"\n`,
  )
  chmodSync(file, 0o755)
}

/** Follows a section; whatever a busy machine spoilt is told and ends it. */
async function follow(
  title: string,
  skip: (note: string) => void,
  replaced: Readonly<Record<string, string>> = {},
): Promise<void> {
  const { folder } = box!
  const brief = {
    TUNE_MAX_TRIALS: '1',
    TUNE_TRIAL_TIME: '1s',
    TUNE_NO_CONFIRM: '1',
    TUNE_TIME_LIMIT: '20s',
  }
  const env = { ...brief, PATH: `${join(folder, '.bin')}:${process.env.PATH}` }
  const startedMs = performance.now()
  let told = false
  for (const [tune, ...words] of commandsOf(section(title))) {
    expect(tune).toBe('tune')
    const given = words.map((word) =>
      Object.entries(replaced).reduce((text, [from, to]) => text.replace(from, to), word),
    )
    const { code, stdout, stderr } = await box!.run(given, env)
    const said = `tune ${given.join(' ')}\n${stdout}\n${stderr}`
    const [file] = /tune-results\/[^\s"/]+\/recommendation\.json/.exec(stdout + stderr) ?? []
    if (file === undefined) expect(code, said).toBe(0)
    else {
      const recommendation = JSON.parse(readFileSync(join(folder, file), 'utf8'))
      expect(code, said).toBe(exitCodeOf(recommendation))
      // A second of load on a busy machine may tell nothing: then there is nothing to go on with.
      if (recommendation.best === undefined)
        skip(`no recommendation from a second of load: ${recommendation.verdict}`)
      if (!told)
        console.info(
          `${title}: ${((performance.now() - startedMs) / 1000).toFixed(0)} s to the first recommendation`,
        )
      told = true
    }
  }
  expect(told).toBe(true)
}

const imports = (...modules: readonly string[]) =>
  modules.filter((name) => spawnSync('/usr/bin/python3', ['-c', `import ${name}`]).status !== 0)

test('My PyTorch model behind FastAPI', async ({ skip }) => {
  const absent = imports('torch', 'fastapi', 'uvicorn')
  if (absent.length > 0)
    skip(
      `${absent.join(', ')} not installed: apt-get install python3-torch python3-fastapi python3-uvicorn`,
    )
  box = new CliBox()
  cpSync(join(root, 'examples/fastapi-torch/app.py'), join(box.folder, 'app.py'))
  await follow('My PyTorch model', skip)
  expect(readFileSync(join(box.folder, 'deploy/deployment.yaml'), 'utf8')).toContain(
    'registry.example/classifier:1',
  )
})

test('Triton or TensorFlow Serving that runs already', async ({ skip }) => {
  box = new CliBox()
  standIn('tensorflow_model_server', 'tfserving.mjs')
  mkdirSync(join(box.folder, 'models/half_plus_two/1'), { recursive: true })
  const port = String(await freePort())
  const flags = [
    `--rest_api_port=${port}`,
    '--port=0',
    '--model_name=half_plus_two',
    '--model_base_path=models/half_plus_two',
  ]
  server = spawn(join(box.folder, '.bin/tensorflow_model_server'), flags, {
    cwd: box.folder,
    stdio: 'ignore',
  })
  const answers = () =>
    fetch(`http://127.0.0.1:${port}/v1/models/half_plus_two`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await answers())) await sleep(50)
  await follow('Triton or TensorFlow Serving', skip, { 8501: port })
})

test('A Hugging Face model on vLLM', async ({ skip }) => {
  box = new CliBox()
  standIn('vllm', 'vllm.mjs')
  await follow('A Hugging Face model', skip)
  const written = readFileSync(join(box.folder, 'experiment.yaml'), 'utf8')
  for (const knob of ['maxNumSeqs', 'maxNumBatchedTokens', 'gpuMemoryUtilization'])
    expect(written).toMatch(new RegExp(`^ {2}${knob}: `, 'm'))
})

test('Flask, gunicorn and TensorFlow Serving on CPU', async ({ skip }) => {
  if (spawnSync('gunicorn', ['--version']).status !== 0 || imports('flask').length > 0)
    skip('gunicorn or Flask not installed: apt-get install gunicorn python3-flask')
  box = new CliBox()
  standIn('tensorflow_model_server', 'tfserving.mjs')
  mkdirSync(join(box.folder, 'models/half_plus_two/1'), { recursive: true })
  writeFileSync(join(box.folder, 'serve.sh'), indented(section('Flask, gunicorn'), '#!/bin/sh'))
  writeFileSync(join(box.folder, 'app.py'), flaskApp)
  await follow('Flask, gunicorn', skip)
})

test('No server yet: an ONNX file', async ({ skip }) => {
  box = new CliBox()
  cpSync(join(root, 'examples/triton/models/dense/1/model.onnx'), join(box.folder, 'model.onnx'))
  await follow('No server yet', skip)
})

test('no section of the page is left out', () => expect(sections).toHaveLength(5))

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
