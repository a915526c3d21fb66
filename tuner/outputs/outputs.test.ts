import { expect, test } from 'vitest'
import { registerSecret } from '../../trials/secrets.ts'
import type { TuneEvent } from '../loop/events.ts'
import { openOutputs } from './outputs.ts'
import { startReceiver } from './testing/receiver.ts'

const started: TuneEvent = {
  at: '2026-01-01T00:00:00.000Z',
  type: 'experiment-started',
  experimentId: 'm-1',
  name: 'm',
  provenance: 'simulated',
  seed: 1,
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
  maxTrials: 1,
  spaceSize: 1,
  notices: [],
  resumedTrials: 0,
  countedTrials: 0,
}

test('secrets that errors repeat are not sent on', async () => {
  registerSecret('hush-hush-4')
  const receiver = await startReceiver(() => ({ status: 200, body: '{}' }))
  const outputs = await openOutputs([{ kind: 'otlp', url: `http://${receiver.address}` }], () =>
    expect.unreachable(),
  )
  outputs.handle(started)
  outputs.handle({
    at: started.at,
    type: 'warning',
    message: 'the server says: no such token, hush-hush-4',
  })
  await outputs.close()
  receiver.stop()
  const sent = receiver.heard.map(({ body }) => body.toString()).join('\n')
  expect(sent).toContain('the server says: no such token, [secret]')
  expect(sent).not.toContain('hush-hush-4')
})

test('a URL that is none once its references are filled in is refused', async () => {
  await expect(openOutputs([{ kind: 'otlp', url: 'nowhere' }], () => {})).rejects.toThrow(
    "send.otlp: 'nowhere' is not an http URL",
  )
})
