import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { formatVerifyCommand } from '../../../../reports/figures.ts'
import { CliBox, type CliResult, simulatedSearch } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

/** For what loads nothing. */
const tune = new WarmCli()
afterAll(() => tune.end())
const simulated = new CliBox()
let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  await box.end()
})
afterAll(() => simulated.dispose())

const json = (stdout: string) => JSON.parse(stdout) as Record<string, unknown>

/** Skips a test whose load the machine disturbed, as the command itself found. */
const skipIfUnknown = ({ code, stdout }: CliResult, skip: (note: string) => void) => {
  if (code === 1 && json(stdout).finding === 'unknown') skip(`disturbed: ${json(stdout).verdict}`)
}

describe('an experiment in virtual time', () => {
  beforeAll(async () => {
    const { code, stderr } = await tune.run(simulated, simulatedSearch('--max-trials', '4'))
    expect(code, stderr).toBe(0)
  })

  test('its recommendation holds, and what was measured joins it as a confirmation', async () => {
    const before = await simulated.stored()
    const { code, stdout, stderr } = await tune.run(simulated, ['verify', '--json'])
    expect(code, stderr).toBe(0)
    const found = json(stdout)
    const { experiment, trials } = await simulated.stored()
    expect(found).toMatchObject({
      schema: 'tune.verify/v1',
      finding: 'holds',
      experimentId: experiment.id,
      provenRps: found.askedRps,
    })
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
      return trial.state === 'complete'
        ? trial.measurement.points.flatMap(({ load }) => (load.kind === 'open' ? [load.seed] : []))
        : []
    }
    for (const seed of seedsOf(-1)) expect(seedsOf(-2)).not.toContain(seed)
  })

  test('a rate beyond it does not hold: exit 4, with what was measured there', async () => {
    const { code, stdout } = await tune.run(simulated, ['verify', '--rate', '100000', '--json'])
    expect(code).toBe(4)
    expect(json(stdout)).toMatchObject({ finding: 'does not hold', askedRps: 100_000 })
    expect((await simulated.stored()).trials.at(-1)).toMatchObject({ purpose: 'confirmation' })
  })

  test('another trial, by its number; one that is not there is named with those that are', async () => {
    const { code, stdout } = await tune.run(simulated, ['verify', '--trial', '2', '--json'])
    expect([0, 4]).toContain(code)
    expect(json(stdout)).toMatchObject({ trial: 2 })
    const wrong = await tune.run(simulated, ['verify', '--trial', '77'])
    expect(wrong.code).toBe(2)
    expect(wrong.stderr).toMatch(/no trial 77.*\n.*trials that serve: /)
  })
})

describe('an experiment on this machine', () => {
  const server = fileURLToPath(
    new URL('../../../../trials/launchers/testing/server.mjs', import.meta.url),
  )
  const document = {
    model: 'm',
    slo: 'p75<50ms',
    devices: 'cpu',
    predictor: {
      command: ['sh', 'serve.sh', '${port}'],
      protocol: 'json',
      path: '/predict',
      healthPath: '/healthz',
      body: '{}',
    },
    space: { cpuCores: [1] },
    load: { trialTime: '1s', confirmTime: '1s' },
  }
  /** As an update of the server would: the command is the same. */
  const install = (serviceMs: number) => {
    writeFileSync(join(box.folder, 'e.yaml'), JSON.stringify(document))
    writeFileSync(
      join(box.folder, 'serve.sh'),
      `SERVICE_MS=${serviceMs} exec '${process.execPath}' '${server}' --port=$1\n`,
    )
  }

  test('Ctrl-C leaves it as it was; a server that became slower since does not hold, and it says so from then on', async ({
    skip,
  }) => {
    install(2)
    const first = await box.run(['-f', 'e.yaml', '--no-confirm'])
    await box.skipIfDisturbed(skip)
    expect(first.code, first.stderr).toBe(0)
    const before = await box.stored()
    const running = box.start(['verify', '--confirm-time', '30s'])
    await running.said('ready after')
    running.child.kill('SIGINT')
    expect((await running.result).code).toBe(130)
    expect(await box.stored()).toEqual(before)

    // Rates far from what either can do: a busy machine moves neither answer.
    const same = await box.run(['verify', '--rate', '60rps', '--json'])
    skipIfUnknown(same, skip)
    expect([same.code, json(same.stdout).finding], same.stderr).toEqual([0, 'holds'])
    // It serves 33 a second, and keeps the SLO at some of the lower rates.
    install(30)
    const slower = await box.run(['verify', '--rate', '60rps', '--json'])
    skipIfUnknown(slower, skip)
    expect([slower.code, json(slower.stdout).finding], slower.stderr).toEqual([4, 'does not hold'])
    const { trials } = await box.stored()
    expect(trials.filter(({ purpose }) => purpose === 'confirmation')).toHaveLength(2)
  })
})

describe('a service that runs', () => {
  const asked = ['--slo', 'p75<100ms', '--protocol', 'json', '--confirm-time', '1s']
  const file = (port: number) => {
    const predictor = {
      url: `http://127.0.0.1:${port}`,
      protocol: 'json',
      path: '/predict',
      healthPath: '/healthz',
      body: '{}',
      readyTimeout: '2s',
    }
    writeFileSync(join(box.folder, 'service.yaml'), JSON.stringify({ model: 'm', predictor }))
    return ['verify', '-f', 'service.yaml', ...asked]
  }

  test('the command that a spec prints is all that a server of one’s own JSON takes', async ({
    skip,
  }) => {
    const server = createServer((request, response) => {
      request
        .setEncoding('utf8')
        .toArray()
        .then((chunks: string[]) => {
          const scored =
            request.method === 'POST' &&
            request.url === '/api/score' &&
            'q' in JSON.parse(chunks.join(''))
          response
            .writeHead(scored || request.url === '/alive?deep=1' ? 200 : 404, {
              'content-type': 'application/json',
            })
            .end('{}')
        })
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    try {
      const { port } = server.address() as AddressInfo
      const printed = formatVerifyCommand({
        host: `127.0.0.1:${port}`,
        protocol: 'json',
        path: '/api/score',
        healthPath: '/alive?deep=1',
        body: '{"q": "{{text}}"}',
        model: 'm',
        rateRps: 20,
        slo: { percentile: 0.75, limitMs: 400, maxErrorRate: 0.001 },
      })
      const words = [...printed.matchAll(/'([^']*)'|(\S+)/g)].map(
        ([, quoted, plain]) => quoted ?? plain!,
      )
      expect(words.slice(0, 2)).toEqual(['tune', 'verify'])
      const verified = await box.run([...words.slice(1), '--confirm-time', '1s', '--json'])
      skipIfUnknown(verified, skip)
      const { code, stdout, stderr } = verified
      expect(code, stderr).toBe(0)
      expect(json(stdout)).toMatchObject({
        finding: 'holds',
        provenRps: 20,
        label: `http://127.0.0.1:${port}`,
      })
      expect(json(stdout)).not.toHaveProperty('experimentId')
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  test('one that is not there is not known to fail its SLO: exit 1', async () => {
    const { code, stdout } = await box.run([...file(1), '--rate', '40rps'])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^Inconclusive: /)
    // Asked what it speaks, it does not answer.
    const asked = await box.run([
      'verify',
      '--url',
      'http://127.0.0.1:1',
      '--model',
      'm',
      '--slo',
      '50ms',
      '--rate',
      '10rps',
    ])
    expect(asked.code).toBe(1)
    expect(asked.stderr).toMatch(/cannot be reached/)
  })
})

test.each([
  [['verify', '--url', 'http://127.0.0.1:1', '--model', 'm', '--slo', '50ms'], /--rate/],
  [
    ['verify', 'bert-7f3a', '--url', 'http://127.0.0.1:1', '--slo', '50ms', '--rate', '10rps'],
    /only one of them/,
  ],
  [['verify'], /no trial store/],
])('tune %j: exit 2, and what to say instead', async (args, words) => {
  const { code, stdout, stderr } = await tune.run(box, args)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(words)
})
