/**
 * A tuner for tests: launches one predictor, says so, and waits to be killed. Arguments: folder,
 * behaviour.
 */
import { fileURLToPath } from 'node:url'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import { createLocalLauncher } from '../local/local-launcher.ts'

const protocol: Protocol = {
  name: 'json',
  isReady: (url) =>
    fetch(`${url}/healthz`).then(
      (response) => response.ok,
      () => false,
    ),
  prepare: async (url) => ({
    kind: 'http',
    url,
    path: '/predict',
    headers: {},
    bodies: [],
    timeoutMs: 1_000,
  }),
}
const [folder, behaviour] = process.argv.slice(2)
const launcher = createLocalLauncher({
  template: {
    kind: 'command',
    model: 'm',
    command: [
      process.execPath,
      fileURLToPath(new URL('./server.mjs', import.meta.url)),
      '--port=${port}',
      `--pids=${folder}/pids`,
    ],
    env: { BEHAVIOUR: behaviour! },
    protocol: 'json',
  },
  parameters: [],
  protocol,
  payload: { kind: 'generated', seed: 1, count: 1 },
  runDirectory: `${folder}/experiment`,
  machine: await inspectMachine(),
})
await launcher.launch({}, 1, new AbortController().signal)
process.stdout.write('launched\n')
setInterval(() => {}, 1_000_000)
