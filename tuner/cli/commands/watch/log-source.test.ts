import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parseFieldFlags } from './access-log/index.ts'
import { LogSource } from './log-source.ts'
import type { ProductionReading } from './production-source.ts'

const usualFields = parseFieldFlags([], undefined)
let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'log-source-'))
  path = join(folder, 'access.log')
})
afterEach(() => rmSync(folder, { recursive: true }))

const start = 1_790_000_040
const line = (second: number, latency = 10, status = 200, uri = '/v2/a') =>
  `${JSON.stringify({ ts: start + second, latency_ms: latency, status, uri })}\n`
const seconds = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => line(from + i)).join('')

/**
 * Looks one after the other, as a CronJob: each begins with what the last one left, written and
 * read again.
 */
class Looks {
  readonly #source = new LogSource({
    path,
    fields: usualFields,
    paths: [],
    windowS: 60,
    percentile: 0.99,
  })
  #place: unknown
  #since: number | undefined

  async at(second: number): Promise<readonly (readonly [from: number, requests: number])[]> {
    const read: ProductionReading = await this.#source.read(
      start + second,
      this.#since,
      this.#place,
      new AbortController().signal,
    )
    this.#place = JSON.parse(JSON.stringify(read.place))
    const last = read.windows.at(-1)
    if (last) this.#since = last.fromS + last.seconds
    return read.windows.map(({ fromS, rateRps }) => [fromS - start, Math.round(rateRps * 60)])
  }
}

test('a window is told once it is over, its requests however often the log was looked at meanwhile', async () => {
  const looks = new Looks()
  writeFileSync(path, seconds(0, 90))
  expect(await looks.at(90)).toEqual([[0, 60]])
  expect(await looks.at(95)).toEqual([])
  appendFileSync(path, seconds(90, 150) + line(150).slice(0, 20))
  expect(await looks.at(150)).toEqual([[60, 60]])
  appendFileSync(path, line(150).slice(20) + seconds(151, 200))
  expect(await looks.at(200)).toEqual([[120, 60]])
})

test('a log that is moved aside is read to its end, and so are those between', async () => {
  const looks = new Looks()
  writeFileSync(path, seconds(0, 70))
  expect(await looks.at(70)).toEqual([[0, 60]])
  appendFileSync(path, seconds(70, 100))
  renameSync(path, `${path}.1`)
  writeFileSync(path, seconds(100, 130))
  expect(await looks.at(130)).toEqual([[60, 60]])
  renameSync(`${path}.1`, `${path}.2`)
  appendFileSync(path, seconds(130, 170))
  renameSync(path, `${path}.1`)
  writeFileSync(path, seconds(170, 260))
  expect(await looks.at(260)).toEqual([
    [120, 60],
    [180, 60],
  ])
})

test('a log that is copied and cut loses nothing that the copy has', async () => {
  const looks = new Looks()
  writeFileSync(path, seconds(0, 70))
  expect(await looks.at(70)).toEqual([[0, 60]])
  appendFileSync(path, seconds(70, 110))
  copyFileSync(path, `${path}.1`)
  truncateSync(path)
  appendFileSync(path, seconds(110, 125))
  expect(await looks.at(130)).toEqual([[60, 60]])
})

test('rate, percentile and failures: what a client got wrong is no failure, what the server did is in no percentile', async () => {
  writeFileSync(path, seconds(0, 57) + line(57, 900, 503) + line(58, 1, 404) + line(59, 40))
  const source = new LogSource({
    path,
    fields: usualFields,
    paths: ['/v2'],
    windowS: 60,
    percentile: 0.99,
  })
  const { windows } = await source.read(
    start + 70,
    undefined,
    undefined,
    new AbortController().signal,
  )
  expect(windows).toEqual([
    { fromS: start, seconds: 60, rateRps: 1, sloMs: 40, errorShare: 1 / 60 },
  ])
  appendFileSync(path, 'what is this\n')
  expect(
    (await source.read(start + 70, undefined, undefined, new AbortController().signal)).notes,
  ).toContainEqual(expect.stringContaining('1 of 61 lines'))
})

test('a log that begins within a window has a rate over what it has of it', async () => {
  const looks = new Looks()
  writeFileSync(path, seconds(45, 120))
  // 15 requests in 15 s, and then 60 in 60.
  expect(await looks.at(130)).toEqual([
    [45, 60],
    [60, 60],
  ])
})

test('beside a log that was moved aside there may be folders and packed ones', async () => {
  const looks = new Looks()
  writeFileSync(path, seconds(0, 70))
  expect(await looks.at(70)).toEqual([[0, 60]])
  renameSync(path, `${path}.1`)
  mkdirSync(`${path}.old`)
  writeFileSync(`${path}.2.zst`, Buffer.from([0x28, 0xb5, 0x2f, 0xfd]))
  writeFileSync(path, seconds(70, 130))
  expect(await looks.at(130)).toEqual([[60, 60]])
})

test('a line of megabytes is no request and keeps none from being read; a file without lines is no log', async () => {
  const looks = new Looks()
  writeFileSync(path, `${seconds(0, 30)}${'x'.repeat(5 << 20)}\n${seconds(30, 70)}`)
  expect(await looks.at(70)).toEqual([[0, 60]])
  appendFileSync(path, seconds(70, 130))
  expect(await looks.at(130)).toEqual([[60, 60]])
  writeFileSync(path, 'y'.repeat(3 << 20))
  const source = new LogSource({
    path,
    fields: usualFields,
    paths: [],
    windowS: 60,
    percentile: 0.99,
  })
  await expect(
    source.read(start, undefined, undefined, new AbortController().signal),
  ).rejects.toThrow(/no line in a known format: yyy/)
})

test('what is no log is refused, with what it needs', async () => {
  const source = new LogSource({
    path,
    fields: usualFields,
    paths: [],
    windowS: 60,
    percentile: 0.99,
  })
  const read = () => source.read(start, undefined, undefined, new AbortController().signal)
  await expect(read()).rejects.toThrow('no log at')
  writeFileSync(path, 'a\nb\n')
  await expect(read()).rejects.toThrow(/no line in a known format: b/)
})

const readOnce = (
  more: Partial<ConstructorParameters<typeof LogSource>[0]> = {},
  place: unknown = undefined,
) =>
  new LogSource({
    ...{ path, fields: usualFields, paths: [], windowS: 60, percentile: 0.99 },
    ...more,
  }).read(start + 70, undefined, place, new AbortController().signal)

test('what no figure has is counted: other paths, lines without a status, of which errors are not known', async () => {
  const bare = `${JSON.stringify({ ts: start + 5, latency_ms: 10, uri: '/v2/a' })}\n`
  writeFileSync(path, seconds(0, 50) + line(51, 1, 200, '/health') + bare)
  const { windows, notes } = await readOnce({ paths: ['/v2'] })
  expect(windows[0]).not.toHaveProperty('errorShare')
  expect(notes).toEqual([
    `${path} is read as json, latency_ms in ms`,
    '1 of 52 requests are to other paths, e.g. /health',
    expect.stringContaining('1 of the requests have no status'),
  ])
})

test('--path needs a field with the path', async () => {
  writeFileSync(path, `${JSON.stringify({ ts: start, latency_ms: 10, status: 200 })}\n`)
  await expect(readOnce({ paths: ['/v2'] })).rejects.toThrow(/--path needs the path of requests/)
})

test('a unit that gives an unlikely median is warned of', async () => {
  writeFileSync(path, Array.from({ length: 60 }, (_, i) => line(i, 0.126)).join(''))
  expect((await readOnce()).notes).toContainEqual(
    expect.stringMatching(/^warning: half of the requests take 0.126 ms or less/),
  )
})

test('the format of the first look stays while the server gets slow, until --reset', async () => {
  const stamp = (second: number) => new Date((start + second) * 1000).toISOString()
  const nginx = (second: number, took: string) =>
    `10.0.0.1 - - [${stamp(second).slice(8, 10)}/Sep/${stamp(second).slice(0, 4)}:${stamp(second).slice(11, 19)} +0000] "POST /v2/a HTTP/1.1" 200 9 "-" "curl" ${took}\n`
  writeFileSync(path, nginx(0, '0.126'))
  const { place } = await readOnce()
  writeFileSync(path, Array.from({ length: 60 }, (_, i) => nginx(i, '4.126')).join(''))
  expect((await readOnce({}, place)).windows[0]).toMatchObject({ sloMs: 4126 })
  await expect(readOnce()).rejects.toThrow(/does not name the unit/)
})
