/** The server cannot be measured: wrong protocol, unknown model, refused request, and others. */
export class ProtocolError extends Error {
  constructor(
    /** Name of the expected protocol. */
    readonly protocol: string,
    message: string,
    readonly hint?: string,
    /** Cause, where the caller can react to it. */
    readonly why?:
      | 'other-protocol' // the server speaks another protocol
      | 'other-port' // the server listens on another port
      | 'denied' // it requires credentials
      | 'unknown-call' // it knows no such path or model
      | 'refused' // it understood the request and rejects its content
      | 'untrusted' // its certificate is not trusted
      | 'answers-differ' // concurrent requests get other answers than single ones
      | 'no-answer' // the first request got no answer in time
      | 'not-ready', // it is still loading
  ) {
    super(message)
    this.name = 'ProtocolError'
  }
}

/** A problem, to follow the name of its source, and its remedy. */
export interface Problem {
  readonly what: string
  readonly hint: string
}

/** A payload file or template that cannot be used. */
export class PayloadError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'PayloadError'
  }
}

/** The load generator's process failed, or cannot play the requested load. */
export class GeneratorError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message)
    this.name = 'GeneratorError'
  }
}
