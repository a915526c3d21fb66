import { describe, expect, test } from 'vitest'
import { detectStyle } from './glyphs.ts'
import { createEventsRenderer, createJsonRenderer } from './json-renderer.ts'
import { createPlainRenderer } from './plain-renderer.ts'
import { paperIo, recordedEvents, rendererContract } from './renderer.contract.ts'
import { chooseRenderer } from './renderer.ts'
import { createScreenRenderer } from './screen.tsx'

rendererContract('plain', async (io) => createPlainRenderer(io))
rendererContract('json', async (io) => createJsonRenderer(io))
rendererContract('events', async (io) => createEventsRenderer(io))
rendererContract('screen', async (io) => createScreenRenderer(io))

describe('choosing a renderer', () => {
  const tty = { isTTY: true }
  test.each([
    [{}, tty, {}, 'screen'],
    [{}, {}, {}, 'plain'],
    [{}, tty, { CI: 'true' }, 'plain'],
    [{}, tty, { NO_COLOR: '1' }, 'plain'],
    [{}, tty, { TERM: 'dumb' }, 'plain'],
    [{ plain: true }, tty, {}, 'plain'],
    [{ json: true }, tty, {}, 'json'],
    [{ events: true }, tty, {}, 'events'],
  ] as const)('%j on %j with %j is %s', (flags, stream, env, name) => {
    expect(chooseRenderer(flags, stream, env)).toBe(name)
  })

  test('colour is off for NO_COLOR, pipes and CI, on when forced', () => {
    expect(detectStyle(tty, { LANG: 'C.UTF-8' })).toEqual({ color: true, unicode: true })
    expect(detectStyle(tty, { NO_COLOR: '1' }).color).toBe(false)
    expect(detectStyle({}, {}).color).toBe(false)
    expect(detectStyle({}, { FORCE_COLOR: '1' }).color).toBe(true)
    expect(detectStyle(tty, { LANG: 'C' }).unicode).toBe(false)
  })
})

test('plain progress names trials, steps, the best and the reason of the stop', async () => {
  const io = paperIo()
  const renderer = createPlainRenderer(io)
  for (const event of await recordedEvents()) renderer.handle(event)
  await renderer.close()
  expect(io.stderr.text).toContain('GPUs here are emulated')
  expect(io.stderr.text).toContain('trial 1 of at most 5: #1 {"batchSize":1} (next in order)')
  expect(io.stderr.text).toContain('finding saturation: 120 req/s: p99 43 ms of 50 ms')
  expect(io.stderr.text).toMatch(/✗ #5 .* cannot serve, out-of-memory: needs 17 GiB of 15 GiB/)
  expect(io.stderr.text).toContain('best so far: #4')
  expect(io.stderr.text).toContain('stopped (space-exhausted)')
  expect(io.stdout.text).toContain('SLO       met in a second load test at this rate')
})

test('lines of trials that run at the same time carry their numbers, those of one alone do not', async () => {
  const ready = (number: number) =>
    ({ at, type: 'predictor-ready', number, isolation: `core ${number}`, seconds: 1 }) as const
  const started = (number: number) =>
    ({
      at,
      type: 'trial-started',
      number,
      suggestion: { configuration: {}, why: 'w' },
      attempt: 1,
      label: 'l',
      pricePerHour: 1,
    }) as const
  const at = '2026-01-01T00:00:00Z'
  const linesOf = (
    ...events: Parameters<ReturnType<typeof createPlainRenderer>['handle']>[0][]
  ) => {
    const io = paperIo()
    const renderer = createPlainRenderer(io)
    for (const event of events) renderer.handle(event)
    return io.stderr.text.split('\n').filter((line) => line.includes('ready'))
  }
  expect(linesOf(started(1), started(2), ready(2), ready(1))).toEqual([
    expect.stringContaining('#2 ready after 1 s: core 2'),
    expect.stringContaining('#1 ready after 1 s: core 1'),
  ])
  expect(linesOf(started(1), ready(1))).toEqual([expect.stringMatching(/^ {2}ready/)])
})

test.each([
  ['plain', createPlainRenderer],
  ['the screen', createScreenRenderer],
])('%s is as wide as the terminal is by then', async (_name, create) => {
  const io = paperIo()
  const renderer = create(io)
  for (const event of await recordedEvents()) {
    io.stdout.columns = 60
    renderer.handle(event)
  }
  await renderer.close()
  const widths = io.stdout.text.split('\n').map((line) => line.length)
  expect(Math.max(...widths)).toBeLessThanOrEqual(60)
})

test('plain progress breaks lines between words, and indents what goes on', async () => {
  const io = paperIo()
  io.stderr.columns = 40
  const renderer = createPlainRenderer(io)
  for (const event of await recordedEvents()) renderer.handle(event)
  expect(io.stderr.text).toMatch(/✗ #5 .*\n {2}\S/)
  expect(io.stderr.text.replace(/\n +/g, ' ')).toContain('out-of-memory: needs 17 GiB of 15 GiB')
  expect(Math.max(...io.stderr.text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(40)
})

test('every line of --events is an event; Infinity survives as a string', async () => {
  const io = paperIo()
  const renderer = createEventsRenderer(io)
  const events = await recordedEvents()
  for (const event of events) renderer.handle(event)
  renderer.handle({
    at: '2026-01-01T00:00:00Z',
    type: 'confirmed',
    number: 1,
    met: false,
    rateRps: 1,
    sloMs: Number.POSITIVE_INFINITY,
  })
  const lines = io.stdout.text.trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line).type)).toEqual([
    ...events.map((e) => e.type),
    'confirmed',
  ])
  expect(JSON.parse(lines.at(-1) ?? '').sloMs).toBe('Infinity')
})

test('--json is one document with the files', async () => {
  const io = paperIo()
  const renderer = createJsonRenderer(io)
  for (const event of await recordedEvents()) renderer.handle(event)
  await renderer.close()
  expect(JSON.parse(io.stdout.text)).toMatchObject({
    schema: 'tune.recommendation/v1',
    files: ['recommendation.json'],
  })
})
