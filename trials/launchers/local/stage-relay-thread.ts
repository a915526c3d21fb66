/** The thread of `stage-relay.ts`: accepts connections, and forwards their bytes. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { parentPort, workerData } from 'node:worker_threads'
import { type RelayThreadData, relayCounters } from './stage-relay.ts'

const { replicas, counters } = workerData as RelayThreadData
const connections = replicas.map(() => 0)

const add = (counter: keyof typeof relayCounters, amount: number): void => {
  Atomics.add(counters, relayCounters[counter], BigInt(amount))
}

/** The first bytes of HTTP/2 by prior knowledge (RFC 9113, section 3.4). */
const http2Preface = 'PRI * HTTP/2.0'

/**
 * Counts the requests of one connection: bytes of the client that follow bytes of the server begin
 * one. That holds without pipelining, which HTTP/1.1 clients do not use.
 */
function countRequests(client: Socket, replica: Socket): void {
  let startedMs: number | undefined
  let isFirst = true
  client.on('data', (bytes: Buffer) => {
    if (isFirst && bytes.subarray(0, http2Preface.length).toString('latin1') === http2Preface)
      add('multiplexed', 1)
    isFirst = false
    if (startedMs !== undefined) return
    startedMs = performance.now()
    add('requests', 1)
  })
  replica.on('data', () => {
    if (startedMs === undefined) return
    add('answers', 1)
    add('answerUs', Math.round(1000 * (performance.now() - startedMs)))
    startedMs = undefined
  })
}

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  const leastBusy = connections.indexOf(Math.min(...connections))
  connections[leastBusy]!++
  const replica = connect({ ...replicas[leastBusy]!, allowHalfOpen: true, noDelay: true })
  let openDirections = 2
  const endDirection = () => {
    openDirections--
    if (openDirections === 0) connections[leastBusy]!--
  }
  countRequests(client, replica)
  // An error of one direction destroys both sockets, so the other direction ends too.
  pipeline(client, replica, endDirection)
  pipeline(replica, client, endDirection)
})
server.listen(0, '127.0.0.1', () => {
  parentPort!.postMessage((server.address() as AddressInfo).port)
})
