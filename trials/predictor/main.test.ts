import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { metric, post } from './testing.contract.ts'
import { weightsToFill } from './weights-to-fill.ts'

/** As built: the tests' global set-up keeps it up to date. */
const main = fileURLToPath(new URL('../../dist/trials/predictor/main.js', import.meta.url))

interface Run {
  readonly child: ChildProcess
  readonly output: { stdout: string; stderr: string }
  /** The line it prints when it serves; rejects when it ends before. */
  readonly ready: Promise<{
    readonly port: number
    readonly url: string
    readonly device: string
    readonly provenance: string
  }>
  readonly exit: Promise<{ readonly code: number | null; readonly signal: string | null }>
}

function run(...args: string[]): Run {
  const child = spawn(process.execPath, [main, '--port', '0', ...args], { stdio: 'pipe' })
  const output = { stdout: '', stderr: '' }
  child.stderr.on('data', (chunk) => {
    output.stderr += chunk
  })
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once('close', (code, signal) => resolve({ code, signal })),
  )
  const ready = new Promise<Awaited<Run['ready']>>((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      output.stdout += chunk
      if (output.stdout.includes('\n')) resolve(JSON.parse(output.stdout))
    })
    void exit.then(({ code }) => reject(new Error(`ended with ${code}: ${output.stderr}`)))
  })
  // Tests that expect an early end do not look at it.
  ready.catch(() => undefined)
  onTestFinished(() => void child.kill('SIGKILL'))
  return { child, output, ready, exit }
}

const emulated = (...args: string[]) => run('--engine', 'emulated', '--gpu', 'T4', ...args)
const texts = (...data: string[]) => ({
  inputs: [{ name: 'text', shape: [data.length], datatype: 'BYTES', data }],
})
const isAlive = (pid: number) => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    // No such process.
    return false
  }
}
const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number)
async function until(what: () => boolean): Promise<void> {
  while (!what()) await new Promise((resolve) => setTimeout(resolve, 10))
}

describe('a predictor process', () => {
  test('refuses to start with the placeholder of weights that nobody named, and says why', async () => {
    const { exit, output } = run('--model', 'bert-tiny', '--model-path', weightsToFill)
    expect((await exit).code).toBe(2)
    expect(output.stderr).toMatch(/MODEL_PATH.*written without --model-uri, so it has no weights/)
    expect(output.stdout).toBe('')
  })

  test('says where it serves in one line of JSON, drains on SIGTERM and ends with 0', async () => {
    const { child, ready, exit, output } = emulated('--model', 'bert-large')
    const { url, device, provenance } = await ready
    expect([device, provenance]).toEqual(['T4 (emulated)', 'emulated'])
    const answers = Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        post(`${url}/v2/models/bert-large/infer`, texts(`text ${i}`)),
      ),
    )
    const arrived = async () =>
      (await metric(url, 'predictor_items_total')) + (await metric(url, 'predictor_queue_items'))
    // The eighth is on the device.
    while ((await arrived()) < 7) await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGTERM')
    expect((await answers).map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect(await exit).toEqual({ code: 0, signal: null })
    expect(output.stderr).toBe('')
    await expect(fetch(url)).rejects.toThrow()
  })

  test('can be stopped while it loads', async () => {
    const { child, exit, output } = run('--model', 'bert-large', '--engine', 'tfjs')
    await until(() => childrenOf(child.pid!).length > 0)
    const engines = childrenOf(child.pid!)
    child.kill('SIGTERM')
    expect(await exit).toEqual({ code: 0, signal: null })
    expect(output.stdout).toBe('')
    await until(() => engines.every((pid) => !isAlive(pid)))
  })

  test('a request that hangs does not keep it from stopping', async () => {
    const { child, ready, exit } = emulated(
      '--model',
      'bert-large',
      '--sequence-length',
      '512',
      '--drain-timeout-ms',
      '50',
    )
    const { url } = await ready
    const answer = post(`${url}/v2/models/bert-large/infer`, texts(...Array<string>(900).fill('x')))
    while ((await metric(url, 'predictor_items_total')) === 0)
      await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGTERM')
    expect((await answer).status).toBeGreaterThanOrEqual(500)
    expect(await exit).toEqual({ code: 0, signal: null })
  })

  test('ends with its parent when told to', async () => {
    const { child, ready, exit } = emulated('--model', 'bert-tiny', '--exit-with-parent')
    await ready
    child.stdin!.end()
    expect(await exit).toEqual({ code: 0, signal: null })
  })

  test('too little GPU memory: exit code 12 and a line that is marked emulated', async () => {
    const { exit, output } = emulated('--model', 'bert-large', '--gpu-memory-percent', '5')
    expect((await exit).code).toBe(12)
    expect(output.stderr).toMatch(
      /CUDA out of memory \(emulated\): bert-large, batch 1, .* need \d+ MiB; 5 % of a T4 has \d+ MiB/,
    )
    expect(output.stdout).toBe('')
  })

  test('without warm-up, memory runs out at the batch that needs it', async () => {
    const { ready, exit, output } = emulated(
      '--model',
      'bert-base',
      '--batch-size',
      '2000',
      '--gpu-memory-percent',
      '8',
      '--warm-up-batch',
      '0',
    )
    const { url } = await ready
    expect((await post(`${url}/v2/models/bert-base/infer`, texts('small'))).status).toBe(200)
    const { status, json } = await post(
      `${url}/v2/models/bert-base/infer`,
      texts(...Array<string>(900).fill('x')),
    )
    expect([status, json.error]).toEqual([
      503,
      expect.stringMatching(/CUDA out of memory \(emulated\)/),
    ])
    expect((await exit).code).toBe(12)
    expect(output.stderr).toMatch(/CUDA out of memory \(emulated\)/)
  })

  test('wrong settings: exit code 2, all of them named', async () => {
    const { exit, output } = run(
      '--engine',
      'emulated',
      '--batch-size',
      '-1',
      '--cpu-cores',
      'none',
    )
    expect((await exit).code).toBe(2)
    expect(output.stderr).toMatch(/--batch-size/)
    expect(output.stderr).toMatch(/--cpu-cores/)
  })

  test('an unknown GPU is named, with what was meant', async () => {
    const { exit, output } = emulated('--gpu', 'T44')
    expect((await exit).code).toBe(1)
    expect(output.stderr).toMatch(/unknown GPU 'T44'.*T4/)
  })

  test('a taken port: exit code 98', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void holder.close())
    await new Promise((resolve) => holder.once('listening', resolve))
    const { port } = holder.address() as { port: number }
    const { exit, output } = emulated('--port', String(port))
    expect((await exit).code).toBe(98)
    expect(output.stderr).toMatch(new RegExp(`${port}`))
  })

  test('its engine processes go with it, even when it is killed', async () => {
    const { child, ready, exit } = run(
      '--model',
      'bert-tiny',
      '--engine',
      'tfjs',
      '--instances',
      '2',
      '--sequence-length',
      '16',
    )
    const { url, provenance } = await ready
    expect(provenance).toBe('measured')
    expect(
      (await post(`${url}/v2/models/bert-tiny/infer`, texts('x', 'y', 'z'))).json.outputs[0].shape,
    ).toEqual([3, 2])
    const engines = childrenOf(child.pid!)
    expect(engines.length).toBeGreaterThanOrEqual(2)
    child.kill('SIGKILL')
    await exit
    await until(() => engines.every((pid) => !isAlive(pid)))
  })

  test('a killed engine ends the predictor, which says so', async () => {
    const { child, ready, exit, output } = run(
      '--model',
      'bert-tiny',
      '--engine',
      'tfjs',
      '--sequence-length',
      '16',
    )
    await ready
    for (const pid of childrenOf(child.pid!)) process.kill(pid, 'SIGKILL')
    expect((await exit).code).toBe(12)
    expect(output.stderr).toMatch(/killed by SIGKILL/)
  })
})
