import { fileURLToPath } from 'node:url'

const server = fileURLToPath(new URL('../../trials/launchers/testing/server.mjs', import.meta.url))

/**
 * An experiment, as YAML, on a predictor that behaves as told
 * (trials/launchers/testing/server.mjs). It serves one request at a time, 2 ms each, which leaves
 * most of a core to others and makes the 512 requests of a warm-up one second; a busy machine does
 * not break its SLO.
 */
export const onTestServer = (behaviour: string, { maxTrials = 5, readyTimeout = '3s' } = {}) => `
name: fault
model: m
slo: p75<50ms
predictor:
  command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(server)}, '--port=\${port}']
  env: { BEHAVIOUR: ${behaviour}, SERVICE_MS: '2' }
  protocol: json
  path: /predict
  readyTimeout: ${readyTimeout}
load: { trialTime: 1s, confirmTime: 250ms }
space:
  maxBatchSize: { values: [1, 2, 4, 8, 16, 32], category: env }
budget: { maxTrials: ${maxTrials} }
`
