/** Nodes of a TypeScript source, as the parser gives them. */

export interface Place {
  readonly start: number
  readonly end: number
}

export interface Node extends Place {
  readonly type: string
  readonly [key: string]: unknown
}

export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as { type?: unknown }).type === 'string'
