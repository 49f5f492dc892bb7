// One thing a client does, with mqtt.js: `pub` or `sub`, as `run` asks.
//
// pub VERSION QOS RETAIN TOPIC PAYLOAD
//     publish, wait for the end of the handshake, disconnect
// sub VERSION ID CLEAN QOS COUNT FILTER [WILL]
//     subscribe, say `ready`, print `@ TOPIC PAYLOAD QOS RETAIN` for each of COUNT messages,
//     disconnect

import { readFileSync } from 'node:fs'
import mqtt from 'mqtt'

const PATIENCE = 110_000
const VERSIONS = {
  '3.1': { protocolId: 'MQIsdp', protocolVersion: 3 },
  '3.1.1': { protocolVersion: 4 },
  5: { protocolVersion: 5 },
}

function fail(reason) {
  console.error(reason)
  process.exit(1)
}

function connect(version, clientId, clean, will) {
  const options = { ...VERSIONS[version], clientId, clean, reconnectPeriod: 0 }
  if (version === '5' && !clean) options.properties = { sessionExpiryInterval: 3600 }
  if (will) options.will = { topic: will, payload: 'gone', qos: 1 }
  const secure = process.env.SECURE
  if (secure) {
    const read = name => readFileSync(`${secure}/${name}`)
    options.ca = read('ca.pem')
    options.cert = read('client.pem')
    options.key = read('client.key')
  }
  const address = `127.0.0.1:${process.env.PORT}`
  const plain = process.env.WEB ? `ws://${address}/mqtt` : `mqtt://${address}`
  const client = mqtt.connect(secure ? `mqtts://${address}` : plain, options)
  client.on('error', fail)
  setTimeout(() => fail('out of time'), PATIENCE)
  return client
}

async function publish(version, qos, retain, topic, payload) {
  const client = connect(version, `js-pub-${process.pid}`, true)
  client.on('connect', async () => {
    await client.publishAsync(topic, payload, { qos: Number(qos), retain: retain === '1' })
    await client.endAsync()
    process.exit(0)
  })
}

function subscribe(version, clientId, clean, qos, count, filter, will) {
  let left = Number(count)
  const client = connect(version, clientId, clean === '1', will)
  // The answers to what came leave before DISCONNECT.
  const finish = () => setImmediate(() => client.end(false, () => process.exit(0)))
  client.on('message', (topic, payload, packet) => {
    console.log('@', topic, payload.toString(), packet.qos, Number(packet.retain))
    left -= 1
    if (left === 0) finish()
  })
  client.on('connect', () => {
    client.subscribe(filter, { qos: Number(qos) }, error => {
      if (error) fail(error)
      console.log('ready')
      if (left === 0) finish()
    })
  })
}

const [, , action, ...rest] = process.argv
await { pub: publish, sub: subscribe }[action](...rest)
