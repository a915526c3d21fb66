/**
 * Prometheus' remote write 1.0 (https://prometheus.io/docs/specs/prw/remote_write_spec/): samples
 * as protobuf, in snappy's block format.
 */
import protobuf from 'protobufjs'
import snappy from 'snappyjs'
import type { OutputTarget } from '../experiment/output-target.ts'
import type { TuneEvent } from '../loop/events.ts'
import { Batches } from './batches.ts'
import { Delivery } from './delivery.ts'
import type { Output } from './output.ts'
import { RunSeries, type Sample } from './prometheus-series.ts'

const { root } = protobuf.parse(
  `syntax = "proto3";
  message WriteRequest { repeated TimeSeries timeseries = 1; }
  message TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
  message Label { string name = 1; string value = 2; }
  message Sample { double value = 1; int64 timestamp = 2; }`,
)
const WriteRequest = root.lookupType('WriteRequest')

/** @param warn told of what is lost */
export function remoteWrite(
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
): Output {
  const delivery = new Delivery(target, warn, now)
  const series = new RunSeries()
  const times = new StrictTimes()
  const samples = new Batches<Sample>((batch) =>
    delivery.send({
      contentType: 'application/x-protobuf',
      headers: protocolHeaders,
      body: snappy.compress(encoded(batch)),
    }),
  )
  return {
    handle(event: TuneEvent) {
      samples.add(...series.samplesOf(event).map((sample) => times.after(sample)))
    },
    async close() {
      await samples.sent()
      await delivery.close()
    },
  }
}

const protocolHeaders = {
  'content-encoding': 'snappy',
  'x-prometheus-remote-write-version': '0.1.0',
}

/**
 * A receiver refuses two samples of a series at one time, as steps in virtual time have them: later
 * ones are moved on by a millisecond each.
 */
class StrictTimes {
  readonly #last = new Map<string, number>()

  after(sample: Sample): Sample {
    const key = JSON.stringify(labelsOf(sample))
    const atMs = Math.max(sample.atMs, (this.#last.get(key) ?? Number.NEGATIVE_INFINITY) + 1)
    this.#last.set(key, atMs)
    return { ...sample, atMs }
  }
}

/** Sorted by name, as the protocol asks; those without a value are none. */
const labelsOf = ({ name, labels }: Sample) =>
  Object.entries<string>({ ...labels, __name__: name })
    .filter(([, value]) => value !== '')
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([label, value]) => ({ name: label, value }))

/** One series for each set of labels, its samples in the order of time. */
function encoded(samples: readonly Sample[]): Uint8Array {
  const bySeries = new Map<
    string,
    { labels: ReturnType<typeof labelsOf>; samples: { value: number; timestamp: number }[] }
  >()
  for (const sample of samples) {
    const labels = labelsOf(sample)
    const key = JSON.stringify(labels)
    const one = bySeries.get(key) ?? { labels, samples: [] }
    one.samples.push({ value: sample.value, timestamp: sample.atMs })
    bySeries.set(key, one)
  }
  return WriteRequest.encode(WriteRequest.create({ timeseries: [...bySeries.values()] })).finish()
}
