"""One thing a client does, with paho-mqtt 2: `pub` or `sub`, as `run` asks.

pub VERSION QOS RETAIN TOPIC PAYLOAD
    publish, wait for the end of the handshake, disconnect
sub VERSION ID CLEAN QOS COUNT FILTER [WILL]
    subscribe, say `ready`, print `@ TOPIC PAYLOAD QOS RETAIN` for each of COUNT messages,
    disconnect
"""

import os
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PATIENCE = 110
VERSIONS = {"3.1": mqtt.MQTTv31, "3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}


def connect(version, identifier, clean, on_connect, will=None):
    protocol = VERSIONS[version]
    session = {} if version == "5" else {"clean_session": clean}
    if os.environ.get("WEB"):
        session["transport"] = "websockets"
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, client_id=identifier, protocol=protocol, **session
    )
    if will:
        client.will_set(will, "gone", qos=1)
    client.on_connect = on_connect
    secure = os.environ.get("SECURE")
    if secure:
        client.tls_set(f"{secure}/ca.pem", f"{secure}/client.pem", f"{secure}/client.key")
    arguments = {}
    if version == "5":
        arguments["clean_start"] = clean
        if not clean:
            arguments["properties"] = Properties(PacketTypes.CONNECT)
            arguments["properties"].SessionExpiryInterval = 3600
    client.connect("127.0.0.1", int(os.environ["PORT"]), **arguments)
    return client


def publish(version, qos, retain, topic, payload):
    connected = threading.Event()
    identifier = f"paho-pub-{os.getpid()}"
    client = connect(version, identifier, True, lambda *_: connected.set())
    client.loop_start()
    if not connected.wait(PATIENCE):
        sys.exit("no CONNACK")
    message = client.publish(topic, payload, int(qos), retain == "1")
    message.wait_for_publish(PATIENCE)
    done = message.is_published()
    client.disconnect()
    client.loop_stop()
    sys.exit(0 if done else "not acknowledged")


def subscribe(version, identifier, clean, qos, count, topic, will=None):
    left = int(count)
    over = threading.Event()

    def subscribed(*_):
        print("ready", flush=True)
        if left == 0:
            over.set()

    def came(_client, _data, message):
        nonlocal left
        payload = message.payload.decode()
        print("@", message.topic, payload, message.qos, int(message.retain), flush=True)
        left -= 1
        if left == 0:
            over.set()

    def connected(client, _data, _flags, reason, _properties):
        if reason.is_failure:
            sys.exit(f"refused: {reason}")
        client.subscribe(topic, int(qos))

    client = connect(version, identifier, clean == "1", connected, will)
    client.on_message = came
    client.on_subscribe = subscribed
    client.loop_start()
    over.wait(PATIENCE)
    client.disconnect()
    client.loop_stop()
    sys.exit(0 if over.is_set() else "messages are missing")


{"pub": publish, "sub": subscribe}[sys.argv[1]](*sys.argv[2:])
