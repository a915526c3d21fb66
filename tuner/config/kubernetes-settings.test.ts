import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { loadExperimentDocument } from './load-experiment.ts'
import { machine, useWorkspace } from './testing/workspace.ts'

const workspace = useWorkspace()
const load = (kubernetes: object) =>
  workspace.loadFile(
    stringify({ model: 'bert', slo: '50ms', backend: 'kubernetes', devices: 'cpu', kubernetes }),
  )

test('a pod with an image is the predictor; one without is laid over the built-in predictor’s', () => {
  const own = load({
    pod: { spec: { containers: [{ name: 'web', image: 'i', ports: [{ containerPort: 9 }] }] } },
  })
  expect(own).toMatchObject({
    predictor: { kind: 'command' },
    kubernetes: { container: 'web', port: 9 },
  })
  const overlay = {
    metadata: { labels: { team: 'a' } },
    spec: { tolerations: [], containers: [{ name: 'predictor', tty: true }] },
  }
  const laidOver = load({ pod: overlay, job: { spec: { nodeSelector: { pool: 'load' } } } })
  expect(laidOver).toMatchObject({
    predictor: { kind: 'builtin' },
    kubernetes: { pod: overlay, job: { spec: { nodeSelector: { pool: 'load' } } } },
  })
})

test('a stored experiment keeps how long a pod waits for a node', () => {
  const { document, kubernetes } = load({ scaleUpTimeout: '5m' })
  expect(kubernetes).toEqual({ scaleUpTimeoutMs: 300_000 })
  const again = loadExperimentDocument(document, 'bert-1', { cwd: '/', machine })
  expect(again.kubernetes).toEqual(kubernetes)
})

test('load goes through one Service per trial where the file says so', () => {
  expect(load({ through: 'service' }).kubernetes).toEqual({ through: 'service' })
})

test.each([
  [
    { pod: { spec: { containers: [{ name: 'web' }] } } },
    /container web has no image.*its own container is called predictor/s,
  ],
  [{ pod: { spec: { containers: [{ tty: true }] } } }, /a container without a name/],
  [
    { job: { spec: { containers: [{ name: 'predictor' }] } } },
    /kubernetes.job: container predictor has no image.*its own container is called load/s,
  ],
  [
    { job: { tolerations: [] } },
    /kubernetes.job: 'tolerations' is not part of a pod template.*use metadata and spec/s,
  ],
  [{ pod: { spec: [] } }, /kubernetes.pod.spec: expected an object/],
  [
    { through: 'service', loadFrom: 'port-forward' },
    /kubernetes.through with loadFrom port-forward.*remove loadFrom/s,
  ],
  [{ through: 'mesh' }, /expected pod or service/],
])('%j is an error with its place and what to do', (kubernetes, message) => {
  expect(() => load(kubernetes)).toThrow(message)
})
