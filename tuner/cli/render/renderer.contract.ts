/** What every renderer keeps, whatever it looks like. */
import { Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { InfeasibleError } from '../../../trials/types.ts'
import type { TuneEvent } from '../../loop/events.ts'
import { runLoop } from '../../loop/loop.ts'
import {
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  loadPoint,
  measurement,
} from '../../testing/fakes.ts'
import type { Renderer, RenderIo } from './render-io.ts'

/** A stream that keeps what it was given. */
export class Paper extends Writable {
  text = ''
  columns = 100
  rows = 40
  isTTY = false
  override _write(chunk: unknown, _encoding: BufferEncoding, done: () => void): void {
    this.text += String(chunk)
    done()
  }
}

export function paperIo(
  overrides: Partial<RenderIo> = {},
): RenderIo & { readonly stdout: Paper; readonly stderr: Paper } {
  const plain = { unicode: true, color: false }
  return {
    outStyle: plain,
    errStyle: plain,
    now: () => Date.parse('2026-01-01T00:01:00Z'),
    ...overrides,
    stdout: new Paper(),
    stderr: new Paper(),
  }
}

/** Events of a small real run: an infeasible trial, load steps, a confirmation. */
export async function recordedEvents(): Promise<TuneEvent[]> {
  const events: TuneEvent[] = []
  const launcher = fakeLauncher(async (configuration) => {
    if (configuration.batchSize === 16)
      throw new InfeasibleError('out-of-memory', 'needs 17 GiB of 15 GiB')
    return fakePredictor({ isolation: String(configuration.batchSize) })
  })
  const parts = fakeParts({
    launcher,
    notices: ['GPUs here are emulated'],
    load: async (predictor, { onStep }) => {
      onStep(loadPoint(120, 43), 'saturation')
      return measurement(100 * Number(predictor.isolation))
    },
  })
  await runLoop(
    fakeExperiment(),
    parts,
    [],
    (event) => events.push(event),
    new AbortController().signal,
  )
  return events
}

/** Every renderer passes this with streams that are no terminal. */
export function rendererContract(name: string, create: (io: RenderIo) => Promise<Renderer>): void {
  describe(`renderer contract: ${name}`, () => {
    const play = async () => {
      const io = paperIo()
      const renderer = await create(io)
      for (const event of await recordedEvents()) renderer.handle(event)
      await renderer.close()
      return io
    }

    test('puts the result on stdout, and no progress there', async () => {
      const { stdout } = await play()
      expect(stdout.text).toContain('720 req/s at p99 48 ms')
      expect(stdout.text).not.toContain('trial 1 of at most')
    })

    test('writes no colours when the style has none', async () => {
      const { stdout, stderr } = await play()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for escape sequences is the point
      expect(stdout.text + stderr.text).not.toMatch(/\u001b\[[0-9;]*m/)
    })

    test('can be closed before anything happened, and after an interrupt', async () => {
      const idle = await create(paperIo())
      await idle.close()
      const io = paperIo()
      const cut = await create(io)
      const events = await recordedEvents()
      for (const event of events.slice(0, 3)) cut.handle(event)
      await cut.close()
    })

    test('leaves no timer or listener that keeps the process alive', async () => {
      const timers = () =>
        process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
      const before = timers()
      await play()
      // Waited for without a timer of our own, which would be counted.
      const startMs = performance.now()
      while (timers() > before && performance.now() - startMs < 60_000)
        await new Promise((resolve) => setImmediate(resolve))
      expect(timers()).toBeLessThanOrEqual(before)
    })
  })
}
