import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { verifyCommand } from '../../../reports/figures.ts'
import { openStore } from '../../../trials/store/index.ts'
import { type Served, serve } from '../../backends/testing/served.ts'
import { CliBox } from '../../testing/run-cli.ts'

let box: CliBox
const servers: Served[] = []
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()))
  await box.end()
})

/** The one experiment of the box. */
async function stored() {
  const store = await openStore(join(box.folder, '.tune', 'tune.db'))
  try {
    const [known] = await store.list()
    return (await store.load(known!.id))!
  } finally {
    await store.close()
  }
}
const json = (stdout: string) => JSON.parse(stdout) as Record<string, unknown>

describe('an experiment in virtual time', () => {
  beforeEach(async () => {
    const { code, stderr } = await box.run([
      '--model',
      'bert',
      '--slo',
      '50ms',
      '--backend',
      'simulated',
      '--gpus',
      'T4',
      '--max-trials',
      '4',
    ])
    expect(code, stderr).toBe(0)
  })

  test('its recommendation holds, and what was measured joins it as a confirmation', async () => {
    const before = await stored()
    const { code, stdout, stderr } = await box.run(['verify', '--json'])
    expect(code, stderr).toBe(0)
    const found = json(stdout)
    const { experiment, trials } = await stored()
    expect(found).toMatchObject({ schema: 'tune.verify/v1', finding: 'holds', experimentId: experiment.id, heldRps: found.askedRps })
    expect(trials).toHaveLength(before.trials.length + 1)
    expect(trials.at(-1)).toMatchObject({
      purpose: 'confirmation',
      number: found.verification,
      why: `verification of trial ${found.trial}`,
    })
    expect(experiment.state).toBe('done')
    // Arrivals of its own: the confirmation's are not played again.
    const seedsOf = (i: number) => {
      const trial = trials.at(i)!
      return trial.state === 'complete' ? trial.measurement.points.flatMap(({ load }) => (load.kind === 'open' ? [load.seed] : [])) : []
    }
    for (const seed of seedsOf(-1)) expect(seedsOf(-2)).not.toContain(seed)
  })

  test('a rate beyond it does not hold: exit 4, with what was measured there', async () => {
    const { code, stdout } = await box.run(['verify', '--rate', '100000', '--json'])
    expect(code).toBe(4)
    expect(json(stdout)).toMatchObject({ finding: 'does not hold', askedRps: 100_000 })
    expect((await stored()).trials.at(-1)).toMatchObject({ purpose: 'confirmation' })
  })

  test('another trial, by its number; one that is not there is named with those that are', async () => {
    const { code, stdout } = await box.run(['verify', '--trial', '2', '--json'])
    expect([0, 4]).toContain(code)
    expect(json(stdout)).toMatchObject({ trial: 2 })
    const wrong = await box.run(['verify', '--trial', '77'])
    expect(wrong.code).toBe(2)
    expect(wrong.stderr).toMatch(/no trial 77.*\n.*those that do: /)
  })
})

describe('an experiment on this machine', () => {
  const server = fileURLToPath(new URL('../../../trials/launchers/testing/server.mjs', import.meta.url))
  const document = {
    model: 'm',
    slo: 'p75<400ms',
    devices: 'cpu',
    predictor: { command: ['sh', 'serve.sh', '${port}'], protocol: 'json', path: '/predict', healthPath: '/healthz', body: '{}' },
    space: { cpuCores: [1] },
    load: { trialTime: '1s', confirmTime: '1s' },
  }
  /** As an update of the server would: the command is the same. */
  const install = (serviceMs: number) => {
    writeFileSync(join(box.folder, 'e.yaml'), JSON.stringify(document))
    writeFileSync(join(box.folder, 'serve.sh'), `SERVICE_MS=${serviceMs} exec '${process.execPath}' '${server}' --port=$1\n`)
  }

  test('a server that became slower since does not hold; its experiment says so from then on', async () => {
    install(5)
    const first = await box.run(['-f', 'e.yaml', '--no-confirm'])
    expect(first.code, first.stderr).toBe(0)
    const same = await box.run(['verify', '--json'])
    expect(same.code, same.stderr).toBe(0)
    install(20)
    const slower = await box.run(['verify', '--json'])
    expect(slower.code, slower.stderr).toBe(4)
    expect(json(slower.stdout)).toMatchObject({ finding: 'does not hold' })
    const { trials } = await stored()
    expect(trials.filter(({ purpose }) => purpose === 'confirmation')).toHaveLength(2)
  }, 180_000)

  test('Ctrl-C leaves the experiment as it was', async () => {
    install(5)
    const first = await box.run(['-f', 'e.yaml', '--no-confirm'])
    expect(first.code, first.stderr).toBe(0)
    const before = await stored()
    const running = box.start(['verify', '--confirm-time', '30s'])
    await running.said('ready after')
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    const { experiment: after, trials } = await stored()
    expect(after.state).toBe('done')
    expect(after.result).toEqual(before.experiment.result)
    expect(trials).toHaveLength(before.trials.length)
  }, 180_000)
})

describe('a service that runs', () => {
  const asked = ['--slo', 'p75<400ms', '--protocol', 'json', '--confirm-time', '1s']
  const file = (port: number) => {
    const predictor = { url: `http://127.0.0.1:${port}`, protocol: 'json', path: '/predict', healthPath: '/healthz', body: '{}' }
    writeFileSync(join(box.folder, 'service.yaml'), JSON.stringify({ model: 'm', predictor }))
    return ['verify', '-f', 'service.yaml', ...asked]
  }

  test('holds at a rate that it serves, and not at one beyond it; nothing is kept', async () => {
    const server = await serve('serve', 25)
    servers.push(server)
    const holds = await box.run([...file(server.port), '--rate', '10rps', '--json'])
    expect(holds.code, holds.stderr).toBe(0)
    expect(json(holds.stdout)).toMatchObject({ finding: 'holds', heldRps: 10, label: `http://127.0.0.1:${server.port}` })
    expect(json(holds.stdout)).not.toHaveProperty('experimentId')
    const beyond = await box.run([...file(server.port), '--rate', '100rps'])
    expect(beyond.code, beyond.stderr).toBe(4)
    expect(beyond.stdout).toMatch(/^Does not hold: http/)
  }, 180_000)

  test('the command that a spec prints is all that a server of one’s own JSON takes', async () => {
    const server = createServer((request, response) => {
      request
        .setEncoding('utf8')
        .toArray()
        .then((chunks: string[]) => {
          const scored = request.method === 'POST' && request.url === '/api/score' && 'q' in JSON.parse(chunks.join(''))
          response.writeHead(scored || request.url === '/alive?deep=1' ? 200 : 404, { 'content-type': 'application/json' }).end('{}')
        })
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    try {
      const { port } = server.address() as AddressInfo
      const printed = verifyCommand({
        host: `127.0.0.1:${port}`,
        protocol: 'json',
        path: '/api/score',
        healthPath: '/alive?deep=1',
        body: '{"q": "{{text}}"}',
        model: 'm',
        rateRps: 20,
        slo: { percentile: 0.75, limitMs: 400, maxErrorRate: 0.001 },
      })
      const words = [...printed.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain!)
      expect(words.slice(0, 2)).toEqual(['tune', 'verify'])
      const { code, stdout, stderr } = await box.run([...words.slice(1), '--confirm-time', '1s', '--json'])
      expect(code, stderr).toBe(0)
      expect(json(stdout)).toMatchObject({ finding: 'holds', heldRps: 20 })
    } finally {
      server.closeAllConnections()
      server.close()
    }
  }, 60_000)

  test('one that is not there is not known to fail its SLO: exit 1', async () => {
    const { code, stdout } = await box.run([...file(1), '--rate', '40rps'])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^Not known: /)
    // Asked what it speaks, it does not answer.
    const asked = await box.run(['verify', '--url', 'http://127.0.0.1:1', '--model', 'm', '--slo', '50ms', '--rate', '10rps'])
    expect(asked.code).toBe(1)
    expect(asked.stderr).toMatch(/cannot be reached/)
  }, 180_000)
})

test.each([
  [['verify', '--url', 'http://127.0.0.1:1', '--model', 'm', '--slo', '50ms'], /--rate/],
  [['verify', 'bert-7f3a', '--url', 'http://127.0.0.1:1', '--slo', '50ms', '--rate', '10rps'], /one of them/],
  [['verify'], /no trial store/],
])('tune %j: exit 2, and what to say instead', async (args, words) => {
  const { code, stdout, stderr } = await box.run(args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(words)
})
