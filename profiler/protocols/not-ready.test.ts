import { expect, test } from 'vitest'
import { findNotReadyReason } from './not-ready.ts'

const version = (state: string, message = '') =>
  JSON.stringify({
    model_version_status: [{ version: '1', state, status: { error_message: message } }],
  })

test.each([
  [version('LOADING'), 'version 1 is LOADING'],
  [version('START'), 'version 1 is START'],
  [version('END', 'Out of memory'), 'version 1 is END (Out of memory)'],
  ['{"name": "m", "ready": false}', '"ready": false'],
  ['{"name": "m", "ready": "False"}', '"ready": false'],
  ['{"status": "ok", "model_loaded": false}', '"model_loaded": false'],
  ['{"isReady": false}', '"isReady": false'],
  ['{"status": "loading model"}', '"status": "loading model"'],
  ['{"status": "Starting"}', '"status": "Starting"'],
  ['{"status": "DOWN"}', '"status": "DOWN"'],
  ['{"error": {"message": "Loading model", "code": 503}}', 'Loading model'],
  ['{"error": "Model with name m is not ready."}', 'Model with name m is not ready.'],
  ['{"error": "Model org/m is currently loading", "estimated_time": 20.0}', 'currently loading'],
  [
    '{"error": "Request for unknown model: \'m\' has no available versions"}',
    'no available versions',
  ],
  ['not ready yet', 'not ready yet'],
  ['Service is warming up', 'Service is warming up'],
  ['loading', 'loading'],
])('%s says that it is not ready', (text, reason) =>
  expect(findNotReadyReason(text)).toContain(reason),
)

test.each([
  '',
  'OK',
  'ready',
  '{"name": "m", "ready": true}',
  '{"model_version_status": []}',
  '{"status": "ok", "model_loaded": true}',
  version('AVAILABLE'),
  JSON.stringify({
    model_version_status: [
      { version: '1', state: 'END' },
      { version: '2', state: 'AVAILABLE' },
    ],
  }),
  '<html><body>Loading model...</body></html>',
  '{"error": "Model with name m does not exist."}',
  '{"error": "Servable not found for request: Latest(m)"}',
  '{"detail": "unloading dock is not a field"}',
  '{"status": "healthy", "text": "loading the model"}',
  '[1, 2]',
])('%s does not', (text) => expect(findNotReadyReason(text)).toBeUndefined())
