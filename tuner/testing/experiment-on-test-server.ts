import { fileURLToPath } from 'node:url'

const server = fileURLToPath(new URL('../../trials/launchers/testing/server.mjs', import.meta.url))

/** An experiment, as YAML, on a predictor that behaves as told (trials/launchers/testing/server.mjs). */
export const onTestServer = (behaviour: string, { maxTrials = 5, trialTime = '1s', readyTimeout = '3s' } = {}) => `
name: fault
model: m
slo: 200ms
predictor:
  command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(server)}, '--port=\${port}']
  env: { BEHAVIOUR: ${behaviour} }
  protocol: json
  path: /predict
  readyTimeout: ${readyTimeout}
load: { trialTime: ${trialTime}, confirmTime: 250ms }
space:
  maxBatchSize: { values: [1, 2, 4, 8, 16, 32], category: env }
budget: { maxTrials: ${maxTrials} }
`
