/** Parts of the documentation that start servers of others: tuner/paths.test.ts follows them. */

interface Journey {
  readonly page: string
  /** Title of the section that it is; a whole page where none is named. */
  readonly section?: string
}

const ownServer = 'docs/how-to/tune-your-server.md'

export const journeys = {
  readme: { page: 'README.md', section: 'Tune your own server' },
  fastapi: { page: 'docs/tutorials/your-own-server.md' },
  vllm: { page: 'docs/tutorials/language-model.md' },
  tfserving: { page: ownServer, section: 'Triton or TensorFlow Serving that already runs' },
  flask: { page: ownServer, section: 'Flask, gunicorn and TensorFlow Serving on CPU' },
  onnx: { page: ownServer, section: 'An ONNX file' },
} satisfies Record<string, Journey>

export const isJourney = (page: string, section: string): boolean =>
  Object.values<Journey>(journeys).some(
    (one) => one.page === page && (one.section === undefined || one.section === section),
  )
