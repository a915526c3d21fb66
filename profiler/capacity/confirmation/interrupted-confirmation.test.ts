/** A confirmation that was interrupted goes on after the windows that it had played. */
import { expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import { confirmed, type Open, open, slow, upTo } from '../../testing/scripted-confirmation.ts'

/** A confirmation that keeps its windows in `kept`. */
const keeping = (
  answer: (load: Open) => LoadRun,
  earlier: readonly LoadRun[],
  kept: LoadRun[],
  rateRps = 100,
) =>
  confirmed((load) => answer(load), {
    rateRps,
    windows: {
      earlier,
      store: async (window, position) => void kept.splice(position, Infinity, window),
    },
  })

const servers: readonly (readonly [string, (load: Open) => LoadRun])[] = [
  ['holds', (load) => open(load)],
  ['misses and holds lower', upTo(90)],
  ['holds without proof', (load) => open(load, (i) => (i % 125 === 60 ? 62 : 5))],
  ['is disturbed at the rate', (load) => open(load, load.rateRps > 96 ? slow : undefined, load.rateRps > 96 ? { machineWait: { server: 0.5 } } : {})], // biome-ignore format: one server
]

test.each(servers)(
  'after any window, of a server that %s: it comes to the same, and plays only the rest',
  async (_, answer) => {
    const kept: LoadRun[] = []
    const whole = await keeping(answer, [], kept)
    expect(kept.map(({ load }) => load)).toEqual(whole.asked)
    for (let played = 0; played <= kept.length; played++) {
      const all = kept.slice(0, played)
      const resumed = await keeping(answer, kept.slice(0, played), all)
      expect(resumed.asked).toEqual(whole.asked.slice(played))
      expect(resumed.found).toEqual(whole.found)
      expect(all).toEqual(kept)
    }
  },
)

test('stored windows of another rate are ignored', async () => {
  const kept: LoadRun[] = []
  await keeping((load) => open(load), [], kept)
  const other = await keeping((load) => open(load), kept, [], 80)
  expect(other.each).toEqual([80, 80])
})

test('a stored window keeps its rate, whatever the new unloaded latency suggests', async () => {
  const kept: LoadRun[] = []
  const answer = upTo(90)
  await keeping(answer, [], kept)
  const moved = kept.map((run) =>
    run.load.kind === 'open' && run.load.rateRps < 100
      ? { ...run, load: { ...run.load, rateRps: 88 } }
      : run,
  )
  const { found, each } = await keeping(answer, moved, [])
  expect(each).not.toContain(88)
  expect(found.points.map(({ load }) => (load.kind === 'open' ? load.rateRps : 0))).toContain(88)
})
